"""How the tools speak to a server: HTTP from threads and from an event loop, the API of OpenAI, options."""

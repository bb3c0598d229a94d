"""The hubs: their addresses, listings and errors, over HTTP."""

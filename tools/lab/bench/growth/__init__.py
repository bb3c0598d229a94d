"""How the cost of a server grows: with streams, prompts, models and adapters."""

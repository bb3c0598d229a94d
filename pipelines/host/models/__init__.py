"""A model in the engine host: loading it, its instance, what it has in flight and in memory."""

"""The index of a search, which runs in the engine host."""

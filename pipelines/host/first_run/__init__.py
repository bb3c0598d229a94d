"""The first run of a new model, in a process of its own before the host loads it."""

"""Loads graphs of models with their nodes: for workers, the engine host and `braid check`."""

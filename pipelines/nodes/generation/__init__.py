"""The scheduler node: `run` submits in the worker, `start` makes the engine in the engine host."""

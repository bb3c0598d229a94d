"""Bodies → `tasks.Pooling`."""

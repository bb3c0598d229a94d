"""Bodies → `tasks.PoolingInput`."""

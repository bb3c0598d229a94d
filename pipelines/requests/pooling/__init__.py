"""Request models of the pooling endpoints; each converts to `tasks.PoolingInput`."""

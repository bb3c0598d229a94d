"""The nodes of a batch, which run in the engine host: encoder, pooling, dense layers, activations."""

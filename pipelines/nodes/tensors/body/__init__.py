"""The tensor_model node, which runs in the engine host."""

"""Tensor models over KServe's protocol beside the bare call of the same model."""

"""Braid's own form of a decoder in ONNX, which exports write and two backends read."""

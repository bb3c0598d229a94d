"""Models on ONNX Runtime's CPU kernels: the exact reference."""

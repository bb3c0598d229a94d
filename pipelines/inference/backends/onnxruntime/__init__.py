"""What the sessions of ONNX Runtime share, on CPUs and on NVIDIA GPUs."""

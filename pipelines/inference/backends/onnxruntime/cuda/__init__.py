"""Models on NVIDIA GPUs by ONNX Runtime: PagedAttention, CUDA graphs, bindings, adapters."""

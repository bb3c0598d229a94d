"""KServe's open inference protocol (v2) and what stands around it: Triton's generate, TensorFlow Serving."""

"""The arithmetic of `ops` as CUDA kernels, which are compiled when the server starts."""

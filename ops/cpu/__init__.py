"""Linear layers with weights of few bits on x86-64 processors: kernels in C++ and how they are compiled."""

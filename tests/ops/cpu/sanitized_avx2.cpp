// One instruction set and the random cases in one source, which compiles in seconds with sanitizers.
#include "block_linear.cpp"
#include "kernel_avx2.cpp"

namespace braid {
const Kernels AVX512VNNI_KERNELS = kernels_of<Avx2>(), AVXVNNI_KERNELS = kernels_of<Avx2>();
}

#include "fuzz_kernels.cpp"

// One instruction set and the random cases in one source, which compiles in seconds with sanitizers.
#include "block_linear.cpp"
#include "expert_activations.hpp"
#include "kernel_avx2.cpp"

namespace braid {
const Kernels AVX512VNNI_KERNELS = kernels_of<Avx2>(), AVXVNNI_KERNELS = kernels_of<Avx2>();
}

extern "C" void bl_activate(const bl_activation* activation, size_t count, const float* gate, const float* up,
                            float* out) {
    braid::activate(*activation, count, gate, up, out);
}

#include "fuzz_kernels.cpp"

// Recurrent layers by one instruction set and their random cases in one source, which compiles in seconds with
// sanitizers.
#include "recurrent.cpp"
#include "recurrent_avx2.cpp"

namespace braid {
const RecurrentKernels AVX512_RECURRENT = recurrent_kernels_of<Avx2>();
}

const char* bl_isa(void) { return "avx2"; }
int bl_set_isa(const char* name) { return !std::strcmp(name, "avx2"); }

#include "fuzz_recurrent.cpp"

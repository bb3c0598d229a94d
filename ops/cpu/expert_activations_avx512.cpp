// The activations of experts by AVX512.
#include "expert_activations.hpp"

namespace braid {

void activate_avx512(const bl_activation& given, size_t count, const float* gate, const float* up, float* out) {
    activate(given, count, gate, up, out);
}

}  // namespace braid

// The activations of experts by AVX2.
#include "expert_activations.hpp"

namespace braid {

void activate_avx2(const bl_activation& given, size_t count, const float* gate, const float* up, float* out) {
    activate(given, count, gate, up, out);
}

}  // namespace braid

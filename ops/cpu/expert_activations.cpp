// The choice of an instruction set for the activations of experts.
#include "block_linear.h"

#if defined(__x86_64__)
#include <cstring>

namespace braid {

void activate_avx512(const bl_activation&, size_t count, const float* gate, const float* up, float* out);
void activate_avx2(const bl_activation&, size_t count, const float* gate, const float* up, float* out);

namespace {

void activate(const bl_activation& given, size_t count, const float* gate, const float* up, float* out) {
    const bool is_wide = !std::strcmp(bl_isa(), "avx512vnni");
    (is_wide ? activate_avx512 : activate_avx2)(given, count, gate, up, out);
}

}  // namespace
}  // namespace braid

#else
#include "expert_activations.hpp"
#endif

extern "C" void bl_activate(const bl_activation* activation, size_t count, const float* gate, const float* up,
                            float* out) {
    braid::activate(*activation, count, gate, up, out);
}

// The choice of an instruction set for the activations of experts.
#include <cstring>

#include "block_linear.h"

namespace braid {

void activate_avx512(const bl_activation&, size_t count, const float* gate, const float* up, float* out);
void activate_avx2(const bl_activation&, size_t count, const float* gate, const float* up, float* out);

}  // namespace braid

extern "C" void bl_activate(const bl_activation* activation, size_t count, const float* gate, const float* up,
                            float* out) {
    const bool is_wide = !std::strcmp(bl_isa(), "avx512vnni");
    (is_wide ? braid::activate_avx512 : braid::activate_avx2)(*activation, count, gate, up, out);
}

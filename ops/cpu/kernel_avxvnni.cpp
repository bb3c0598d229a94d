// AVX-VNNI, of processors without AVX-512: 8 channels in a register.
#include "block_products.hpp"
#include "vector_256.hpp"
#include "vector_vnni.hpp"

namespace braid {
namespace {

struct AvxVnni : Vector256 {
    static constexpr const char* NAME = "avxvnni";
    static constexpr int ONE_LEVEL = 1;
    template <int LEVELS>
    static constexpr size_t CODE_BYTES = 32 * LEVELS;
    template <int LEVELS>
    using Sums = ByteSums<AvxVnni, LEVELS>;
    using Codes = __m256i;

    static Int dot(Int sum, Codes line, Int activations) {
        return _mm256_dpbusd_avx_epi32(sum, line, activations);
    }
    static Int add_256(Int low, Int high) { return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low); }
    static Codes codes(Int line) { return line; }

    template <int LEVELS>
    static void put(const int32_t (&codes)[SEGMENT], uint8_t* out) {
        split_codes<LEVELS>(codes, out);
    }
};

}  // namespace

const Kernels AVXVNNI_KERNELS = KERNELS<AvxVnni>;

}  // namespace braid

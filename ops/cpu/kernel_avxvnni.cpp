// AVX-VNNI, of processors without AVX-512: 8 channels in a register.
#include "block_products.hpp"
#include "vector_256.hpp"

namespace braid {
namespace {

struct AvxVnni : Vector256 {
    static constexpr const char* NAME = "avxvnni";
    using OneLevel = ByteSums<AvxVnni>;
    using TwoLevelsOfFew = TwoByteSums<AvxVnni>;
    using TwoLevelsOfMany = WordSums<AvxVnni>;

    static Int dot(Int sum, Int line, Int activations) {
        return _mm256_dpbusd_avx_epi32(sum, line, activations);
    }
    static Int dot_words(Int sum, Int line, Int activations) {
        return _mm256_dpwssd_avx_epi32(sum, line, activations);
    }
};

}  // namespace

const Kernels AVXVNNI_KERNELS = kernels_of<AvxVnni>();

}  // namespace braid

// AVX2, which has no products of bytes with exact sums: activations and codes are words, for both levels.
#include "block_products.hpp"
#include "vector_256.hpp"

namespace braid {
namespace {

struct Avx2 : Vector256 {
    static constexpr const char* NAME = "avx2";
    using OneLevel = WordSums<Avx2>;
    using TwoLevelsOfFew = WordSums<Avx2>;
    using TwoLevelsOfMany = WordSums<Avx2>;

    static Int dot_words(Int sum, Int line, Int activations) {
        return _mm256_add_epi32(sum, _mm256_madd_epi16(line, activations));
    }
};

}  // namespace

const Kernels AVX2_KERNELS = kernels_of<Avx2>();

}  // namespace braid

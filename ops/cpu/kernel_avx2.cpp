// AVX2, which has no products of bytes with exact sums: activations and codes are int16, for both levels.
#include "block_products.hpp"
#include "vector_256.hpp"

namespace braid {
namespace {

struct Avx2 : Vector256 {
    static constexpr const char* NAME = "avx2";
    static constexpr int ONE_LEVEL = 2;
    template <int LEVELS>
    static constexpr size_t CODE_BYTES = 64;
    // The codes of four weights k of a channel: k and k + 2, k + 1 and k + 3.
    struct Codes {
        Int even, odd;
    };

    template <int LEVELS>
    struct Sums {
        Int sum;

        void begin(int32_t value) { sum = broadcast(value); }
        void add(const Codes& line, const uint8_t* activations, int i) {
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(line.even, broadcast_four(activations + 8 * i)));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(line.odd, broadcast_four(activations + 8 * i + 4)));
        }
        Float value() const { return to_float(sum); }
    };

    static Codes codes(Int four) {
        return {_mm256_and_si256(four, _mm256_set1_epi16(255)), _mm256_srli_epi16(four, 8)};
    }

    template <int LEVELS>
    static void put(const int32_t (&codes)[SEGMENT], uint8_t* out) {
        int16_t pairs[SEGMENT];
        for (size_t i = 0; i < SEGMENT; i++)  // 0, 2, 1, 3, 4, 6, ..
            pairs[i] = static_cast<int16_t>(codes[i % 4 == 1 ? i + 1 : i % 4 == 2 ? i - 1 : i]);
        std::memcpy(out, pairs, sizeof(pairs));
    }
};

}  // namespace

const Kernels AVX2_KERNELS = KERNELS<Avx2>;

}  // namespace braid

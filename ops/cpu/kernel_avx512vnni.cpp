// AVX-512 with VNNI: 16 channels in a register.
#include "block_products.hpp"
#include "vector_vnni.hpp"

namespace braid {
namespace {

struct Avx512Vnni {
    static constexpr const char* NAME = "avx512vnni";
    static constexpr size_t LANES = 16, BYTES = 64, MOST_ROWS = 8;
    static constexpr int ONE_LEVEL = 1;
    template <int LEVELS>
    static constexpr size_t CODE_BYTES = 32 * LEVELS;
    template <int LEVELS>
    using Sums = ByteSums<Avx512Vnni, LEVELS>;
    using Float = __m512;
    using Int = __m512i;
    using Codes = __m512i;

    static Float load(const float* at) { return _mm512_loadu_ps(at); }
    static void store(float* at, Float value) { _mm512_storeu_ps(at, value); }
    static Float broadcast(float value) { return _mm512_set1_ps(value); }
    static Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
    static Float add_product(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
    static Float to_float(Int value) { return _mm512_cvtepi32_ps(value); }
    static Float from_halves(const uint8_t* at) { return _mm512_cvtph_ps(read<__m256i>(at)); }
    static Int from_int8(const uint8_t* at) { return _mm512_cvtepi8_epi32(read<__m128i>(at)); }
    static Int from_uint8(const uint8_t* at) { return _mm512_cvtepu8_epi32(read<__m128i>(at)); }
    static Int subtract(Int a, Int b) { return _mm512_sub_epi32(a, b); }
    static Int bytes(const uint8_t* at) { return _mm512_loadu_si512(at); }
    static void put_bytes(uint8_t* at, Int value) { _mm512_store_si512(at, value); }
    static Int either(Int a, Int b) { return _mm512_or_si512(a, b); }
    template <int UP, int MASK>
    static Int bits(Int value) {
        const Int moved = UP < 0 ? _mm512_srli_epi16(value, UP < 0 ? -UP : 0)
                                 : _mm512_slli_epi16(value, UP < 0 ? 0 : UP);
        return _mm512_and_si512(moved, _mm512_set1_epi8(MASK));
    }
    static Int look_up(__m128i table, Int codes) {
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), codes);
    }
    static Int broadcast(int32_t value) { return _mm512_set1_epi32(value); }
    static Int broadcast_four(const uint8_t* at) { return _mm512_set1_epi32(read<int32_t>(at)); }
    static Int dot(Int sum, Codes line, Int activations) {
        return _mm512_dpbusd_epi32(sum, line, activations);
    }
    static Int add_256(Int low, Int high) { return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low); }
    static Codes codes(Int line) { return line; }

    template <int LEVELS>
    static void put(const int32_t (&codes)[SEGMENT], uint8_t* out) {
        for (size_t i = 0; i < SEGMENT; i += LANES) {
            const Int values = _mm512_loadu_si512(codes + i);
            const Int high = _mm512_srai_epi32(_mm512_add_epi32(values, broadcast(128)), 8);
            __m128i* at = reinterpret_cast<__m128i*>(out + i);
            _mm_storeu_si128(at, _mm512_cvtepi32_epi8(LEVELS == 1 ? values : high));
            if (LEVELS == 2) _mm_storeu_si128(at + SEGMENT / 16, _mm512_cvtepi32_epi8(values));
        }
    }
};

}  // namespace

const Kernels AVX512VNNI_KERNELS = KERNELS<Avx512Vnni>;

}  // namespace braid

// AVX-512 with VNNI: 16 channels in a register.
#include "block_products.hpp"
#include "vector_x86.hpp"

namespace braid {
namespace {

struct Avx512Vnni : UnsignedOperands {
    static constexpr const char* NAME = "avx512vnni";
    static constexpr size_t LANES = 16, BYTES = 64, MOST_ROWS = 8, COLUMNS = 3;
    using OneLevel = ByteSums<Avx512Vnni>;
    using TwoLevelsOfFew = TwoByteSums<Avx512Vnni>;
    using TwoLevelsOfMany = WordSums<Avx512Vnni>;
    using Float = __m512;
    using Int = __m512i;

    static Float load(const float* at) { return _mm512_loadu_ps(at); }
    static void store(float* at, Float value) { _mm512_storeu_ps(at, value); }
    static Float broadcast(float value) { return _mm512_set1_ps(value); }
    static Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
    static Float add_product(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
    static Float to_float(Int value) { return _mm512_cvtepi32_ps(value); }
    static Float from_halves(const uint8_t* at) { return _mm512_cvtph_ps(read<__m256i>(at)); }
    static Float from_bfloats(const uint8_t* at) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(read<__m256i>(at)), 16));
    }
    static void put_halves(uint8_t* at, Float value) {
        const __m256i halves = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
        std::memcpy(at, &halves, sizeof(halves));
    }
    static Int from_int8(const uint8_t* at) { return _mm512_cvtepi8_epi32(read<__m128i>(at)); }
    static Int times(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
    static Int subtract(Int a, Int b) { return _mm512_sub_epi32(a, b); }
    static Int bytes(const uint8_t* at) { return _mm512_loadu_si512(at); }
    static void put_bytes(uint8_t* at, Int value) { _mm512_store_si512(at, value); }
    static Int ints(const int32_t* at) { return _mm512_loadu_si512(at); }
    static Int either(Int a, Int b) { return _mm512_or_si512(a, b); }
    template <int UP, int MASK>
    static Int bits(Int value) {
        const Int moved = UP < 0 ? _mm512_srli_epi16(value, UP < 0 ? -UP : 0)
                                 : _mm512_slli_epi16(value, UP < 0 ? 0 : UP);
        return _mm512_and_si512(moved, _mm512_set1_epi8(MASK));
    }
    static Int even_bytes(Int line) { return _mm512_and_si512(line, _mm512_set1_epi16(255)); }
    static Int odd_bytes(Int line) { return _mm512_srli_epi16(line, 8); }
    static Int subtract_words(Int a, Int b) { return _mm512_sub_epi16(a, b); }
    static Int look_up(const uint8_t (&table)[16], Int codes) {
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(read<__m128i>(table)), codes);
    }
    static Int broadcast(int32_t value) { return _mm512_set1_epi32(value); }
    static Int broadcast_four(const uint8_t* at) { return _mm512_set1_epi32(read<int32_t>(at)); }
    static Int dot(Int sum, Int line, Int activations) {
        return _mm512_dpbusd_epi32(sum, line, activations);
    }
    static Int dot_words(Int sum, Int line, Int activations) {
        return _mm512_dpwssd_epi32(sum, line, activations);
    }

    static Int size_bits(Float value) {  // of the number without its sign
        return _mm512_and_si512(_mm512_castps_si512(value), broadcast(0x7fffffff));
    }
    static Int larger(Int a, Int b) { return _mm512_max_epi32(a, b); }
    static Int nearest(Float value) { return _mm512_cvtps_epi32(value); }
    static Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
    static Int shifted_up_8(Int value) { return _mm512_slli_epi32(value, 8); }
    static Int shifted_down_8(Int value) { return _mm512_srai_epi32(value, 8); }
    static int32_t largest(Int value) { return _mm512_reduce_max_epi32(value); }
    static int32_t total(Int value) { return _mm512_reduce_add_epi32(value); }
    // What `combine` makes of the lanes of each of eight registers, in their order.
    template <class Combine>
    static void fold(const Int (&x)[8], int32_t* out, Combine combine) {
        __m256i halves[8], pairs[4], fours[2];
        for (size_t i = 0; i < 8; i++)
            halves[i] = combine(_mm512_castsi512_si256(x[i]), _mm512_extracti64x4_epi64(x[i], 1));
        for (size_t i = 0; i < 4; i++)
            pairs[i] = combine(_mm256_unpacklo_epi32(halves[2 * i], halves[2 * i + 1]),
                               _mm256_unpackhi_epi32(halves[2 * i], halves[2 * i + 1]));
        for (size_t i = 0; i < 2; i++)
            fours[i] = combine(_mm256_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                               _mm256_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
        const __m256i all = combine(_mm256_permute2x128_si256(fours[0], fours[1], 0x20),
                                    _mm256_permute2x128_si256(fours[0], fours[1], 0x31));
        std::memcpy(out, &all, sizeof(all));
    }
    static void put_largest(const Int (&x)[8], int32_t* out) {
        fold(x, out, [](__m256i a, __m256i b) { return _mm256_max_epi32(a, b); });
    }
    static void put_totals(const Int (&x)[8], int32_t* out) {
        fold(x, out, [](__m256i a, __m256i b) { return _mm256_add_epi32(a, b); });
    }
    static void put_as_bytes(const Int (&codes)[2], uint8_t* out) {
        for (size_t i = 0; i < 2; i++) {
            const __m128i bytes = _mm512_cvtepi32_epi8(codes[i]);
            std::memcpy(out + 16 * i, &bytes, sizeof(bytes));
        }
    }
    static void put_as_words(const Int (&codes)[2], uint8_t* out) {
        const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,  //
                                               0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
        for (size_t i = 0; i < 2; i++) {
            const __m256i ordered = _mm256_shuffle_epi8(_mm512_cvtepi32_epi16(codes[i]), order);
            std::memcpy(out + 32 * i, &ordered, sizeof(ordered));
        }
    }
};

}  // namespace

const Kernels AVX512VNNI_KERNELS = kernels_of<Avx512Vnni>();

}  // namespace braid

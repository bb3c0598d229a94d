// What instruction sets with registers of 256 bits share: 8 channels in one, and panels of 4 rows, since 16
// registers hold no more.
#pragma once

#include "vector_x86.hpp"

namespace braid {
namespace {

struct Vector256 : UnsignedOperands {
    static constexpr size_t LANES = 8, BYTES = 32, MOST_ROWS = 4, COLUMNS = 2;
    using Float = __m256;
    using Int = __m256i;

    static Float load(const float* at) { return _mm256_loadu_ps(at); }
    static void store(float* at, Float value) { _mm256_storeu_ps(at, value); }
    static Float broadcast(float value) { return _mm256_set1_ps(value); }
    static Float multiply(Float a, Float b) { return _mm256_mul_ps(a, b); }
    static Float add_product(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
    static Float to_float(Int value) { return _mm256_cvtepi32_ps(value); }
    static Float from_halves(const uint8_t* at) { return _mm256_cvtph_ps(read<__m128i>(at)); }
    static Float from_bfloats(const uint8_t* at) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(read<__m128i>(at)), 16));
    }
    static void put_halves(uint8_t* at, Float value) {
        const __m128i halves = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
        std::memcpy(at, &halves, sizeof(halves));
    }
    static Int from_int8(const uint8_t* at) { return _mm256_cvtepi8_epi32(eight(at)); }
    static Int times(Int a, Int b) { return _mm256_mullo_epi32(a, b); }
    static Int subtract(Int a, Int b) { return _mm256_sub_epi32(a, b); }
    static Int bytes(const uint8_t* at) { return read<Int>(at); }
    static void put_bytes(uint8_t* at, Int value) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(at), value);
    }
    static Int ints(const int32_t* at) { return read<Int>(at); }
    static Int either(Int a, Int b) { return _mm256_or_si256(a, b); }
    template <int UP, int MASK>
    static Int bits(Int value) {
        const Int moved = UP < 0 ? _mm256_srli_epi16(value, UP < 0 ? -UP : 0)
                                 : _mm256_slli_epi16(value, UP < 0 ? 0 : UP);
        return _mm256_and_si256(moved, _mm256_set1_epi8(MASK));
    }
    static Int even_bytes(Int line) { return _mm256_and_si256(line, _mm256_set1_epi16(255)); }
    static Int odd_bytes(Int line) { return _mm256_srli_epi16(line, 8); }
    static Int subtract_words(Int a, Int b) { return _mm256_sub_epi16(a, b); }
    static Int look_up(const uint8_t (&table)[16], Int codes) {
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(read<__m128i>(table)), codes);
    }
    static Int broadcast(int32_t value) { return _mm256_set1_epi32(value); }
    static Int broadcast_four(const uint8_t* at) { return _mm256_set1_epi32(read<int32_t>(at)); }

    static Int size_bits(Float value) {  // of the number without its sign
        return _mm256_and_si256(_mm256_castps_si256(value), broadcast(0x7fffffff));
    }
    static Int larger(Int a, Int b) { return _mm256_max_epi32(a, b); }
    static Int nearest(Float value) { return _mm256_cvtps_epi32(value); }
    static Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
    static Int shifted_up_8(Int value) { return _mm256_slli_epi32(value, 8); }
    static Int shifted_down_8(Int value) { return _mm256_srai_epi32(value, 8); }
    static int32_t largest(Int value) {
        __m128i most = _mm_max_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
        most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
        return _mm_cvtsi128_si32(_mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1)));
    }
    static int32_t total(Int value) {
        __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
        sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
        return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
    }
    static void put_as_bytes(const Int (&codes)[4], uint8_t* out) {
        const Int bytes = _mm256_packs_epi16(words(codes[0], codes[1]), words(codes[2], codes[3]));
        const Int ordered = _mm256_permute4x64_epi64(bytes, 0xd8);
        std::memcpy(out, &ordered, sizeof(ordered));
    }
    static void put_as_words(const Int (&codes)[4], uint8_t* out) {
        const Int order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,  //
                                           0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
        for (size_t i = 0; i < 2; i++) {
            const Int ordered = _mm256_shuffle_epi8(words(codes[2 * i], codes[2 * i + 1]), order);
            std::memcpy(out + 32 * i, &ordered, sizeof(ordered));
        }
    }

private:
    static __m128i eight(const uint8_t* at) { return _mm_cvtsi64_si128(read<int64_t>(at)); }
    static Int words(Int a, Int b) { return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8); }
};

}  // namespace
}  // namespace braid

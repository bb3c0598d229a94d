// What instruction sets with registers of 256 bits share: 8 channels in one, and panels of 4 rows, since 16
// registers hold no more.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace braid {
namespace {

struct Vector256 {
    static constexpr size_t LANES = 8, BYTES = 32, MOST_ROWS = 4;
    using Float = __m256;
    using Int = __m256i;

    static Float load(const float* at) { return _mm256_loadu_ps(at); }
    static void store(float* at, Float value) { _mm256_storeu_ps(at, value); }
    static Float broadcast(float value) { return _mm256_set1_ps(value); }
    static Float multiply(Float a, Float b) { return _mm256_mul_ps(a, b); }
    static Float add_product(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
    static Float to_float(Int value) { return _mm256_cvtepi32_ps(value); }
    static Float from_halves(const uint8_t* at) { return _mm256_cvtph_ps(read<__m128i>(at)); }
    static Int from_int8(const uint8_t* at) { return _mm256_cvtepi8_epi32(eight(at)); }
    static Int from_uint8(const uint8_t* at) { return _mm256_cvtepu8_epi32(eight(at)); }
    static Int subtract(Int a, Int b) { return _mm256_sub_epi32(a, b); }
    static Int bytes(const uint8_t* at) { return read<Int>(at); }
    static void put_bytes(uint8_t* at, Int value) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(at), value);
    }
    static Int either(Int a, Int b) { return _mm256_or_si256(a, b); }
    template <int UP, int MASK>
    static Int bits(Int value) {
        const Int moved = UP < 0 ? _mm256_srli_epi16(value, UP < 0 ? -UP : 0)
                                 : _mm256_slli_epi16(value, UP < 0 ? 0 : UP);
        return _mm256_and_si256(moved, _mm256_set1_epi8(MASK));
    }
    static Int look_up(__m128i table, Int codes) {
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), codes);
    }
    static Int broadcast(int32_t value) { return _mm256_set1_epi32(value); }
    static Int broadcast_four(const uint8_t* at) { return _mm256_set1_epi32(read<int32_t>(at)); }

private:
    static __m128i eight(const uint8_t* at) { return _mm_cvtsi64_si128(read<int64_t>(at)); }
};

}  // namespace
}  // namespace braid

// What instruction sets with registers of 256 bits share: 8 channels in one, and panels of 4 rows, since 16
// registers hold no more.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace braid {
namespace {

struct Vector256 {
    static constexpr size_t LANES = 8, MOST_ROWS = 4;
    using Float = __m256;
    using Int = __m256i;

    static Float load(const float* at) { return _mm256_loadu_ps(at); }
    static void store(float* at, Float value) { _mm256_storeu_ps(at, value); }
    static Float broadcast(float value) { return _mm256_set1_ps(value); }
    static Float multiply(Float a, Float b) { return _mm256_mul_ps(a, b); }
    static Float add_product(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
    static Float to_float(Int value) { return _mm256_cvtepi32_ps(value); }
    static Int broadcast(int32_t value) { return _mm256_set1_epi32(value); }
    static Int broadcast_four(const uint8_t* at) { return _mm256_set1_epi32(read<int32_t>(at)); }
};

}  // namespace
}  // namespace braid

// Recurrent layers by AVX2: a vector is two registers, and sums of 4 rows are all that 16 registers hold.
#include <immintrin.h>

#include "recurrent_kernels.hpp"

namespace braid {
namespace {

struct Avx2 {
    static constexpr size_t ROWS = 4;
    struct Float {
        __m256 low, high;
    };

    static Float zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
    static Float load(const float* at) { return {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)}; }
    static void store(float* at, Float value) {
        _mm256_storeu_ps(at, value.low);
        _mm256_storeu_ps(at + 8, value.high);
    }
    static Float broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
    static Float multiply(Float a, Float b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
    static Float add_product(Float a, Float b, Float c) {
        return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
    }

    // As of AVX-512, in the same order.
    static void add_up(const Float (&rows)[ROWS], float* sums) {
        __m256 eights[4], fours[2];
        for (size_t i = 0; i < 4; i++) eights[i] = _mm256_add_ps(rows[i].low, rows[i].high);
        for (size_t i = 0; i < 2; i++) {
            const __m256 a = eights[2 * i], b = eights[2 * i + 1];
            fours[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
        }
        const __m256 a = fours[0], b = fours[1];
        const __m256 twos = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
        const __m256 ones = _mm256_add_ps(_mm256_shuffle_ps(twos, twos, 0x88), _mm256_shuffle_ps(twos, twos, 0xdd));
        _mm_storeu_ps(sums, _mm_unpacklo_ps(_mm256_castps256_ps128(ones), _mm256_extractf128_ps(ones, 1)));
    }
};

}  // namespace

const RecurrentKernels AVX2_RECURRENT = recurrent_kernels_of<Avx2>();

}  // namespace braid

// Recurrent layers by AVX-512.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the compiler's own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "recurrent_kernels.hpp"

namespace braid {
namespace {

struct Avx512 {
    static constexpr size_t ROWS = 16;
    using Float = __m512;

    static Float zero() { return _mm512_setzero_ps(); }
    static Float load(const float* at) { return _mm512_loadu_ps(at); }
    static void store(float* at, Float value) { _mm512_storeu_ps(at, value); }
    static Float broadcast(float value) { return _mm512_set1_ps(value); }
    static Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
    static Float add_product(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }

    // The sum of each vector: its upper half is added to the lower one, down to one number.
    static void add_up(const Float (&rows)[ROWS], float* sums) {
        Float eights[8], fours[4], twos[2];
        for (size_t i = 0; i < 8; i++) {
            const Float a = rows[2 * i], b = rows[2 * i + 1];
            eights[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
        }
        for (size_t i = 0; i < 4; i++) {
            const Float a = eights[2 * i], b = eights[2 * i + 1];
            fours[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
        }
        for (size_t i = 0; i < 2; i++) {
            const Float a = fours[2 * i], b = fours[2 * i + 1];
            twos[i] = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
        }
        const Float a = twos[0], b = twos[1];
        const Float ones = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        store(sums, _mm512_permutexvar_ps(order, ones));
    }
};

}  // namespace

const RecurrentKernels AVX512_RECURRENT = recurrent_kernels_of<Avx512>();

}  // namespace braid

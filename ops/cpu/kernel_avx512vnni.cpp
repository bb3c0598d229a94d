// AVX-512 with VNNI: 16 channels in a register.
#include "block_kernels_template.hpp"
#include "vector_vnni.hpp"

namespace braid {
namespace {

struct Avx512Vnni {
    static constexpr const char* NAME = "avx512vnni";
    static constexpr size_t LANES = 16, MOST_ROWS = 8;
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
    static Int broadcast(int32_t value) { return _mm512_set1_epi32(value); }
    static Int broadcast_four(const uint8_t* at) { return _mm512_set1_epi32(read<int32_t>(at)); }
    static Int dot(Int sum, Codes line, Int activations) {
        return _mm512_dpbusd_epi32(sum, line, activations);
    }
    static Int add_256(Int low, Int high) { return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low); }
    static Codes codes(const uint8_t* at) { return _mm512_load_si512(at); }

    template <int LEVELS>
    static void put(const int32_t (&codes)[SEGMENT], uint8_t* out) {
        put_bytes<LEVELS>(codes, out);
    }
};

}  // namespace

const Kernels AVX512VNNI_KERNELS = KERNELS<Avx512Vnni>;

}  // namespace braid

// The activations of networks, in vectors that a compiler writes for each instruction set.  Only sums,
// products and quotients, each rounded by itself: so results are the same on all of them.
#pragma once

#pragma GCC diagnostic ignored "-Wpsabi"  // no vector leaves this source

#include <cmath>
#include <cstring>

#include "block_linear.h"

namespace braid {

namespace {

constexpr size_t WIDE = 16;
typedef float Floats __attribute__((vector_size(4 * WIDE)));
typedef int32_t Wholes __attribute__((vector_size(4 * WIDE)));

inline Floats all(float value) { return Floats{} + value; }
inline Floats least(Floats a, Floats b) { return b < a ? b : a; }  // a where one is NaN
inline Floats most(Floats a, Floats b) { return b > a ? b : a; }

// e^x to 1e-7 of it; x from -87 to 88, beyond which it is that of the nearest of them.
inline Floats exponential(Floats x) {
    constexpr float MAGIC = 12582912.0f;  // 1.5 * 2^23: its last bits are the nearest integer of what is added
    x = least(most(x, all(-87.0f)), all(88.0f));
    const Floats moved = x * 1.44269504f + MAGIC, power = moved - MAGIC;
    const Floats rest = x - power * 0.693359375f + power * 2.12194440e-4f;
    Floats sum = all(1.9875691500e-4f);  // Cephes, expf
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    return sum * (Floats)(((Wholes)moved - 0x4b400000 + 127) << 23);
}

inline Floats sigmoid(Floats x) { return 1.0f / (1.0f + exponential(-x)); }

inline Floats gelu(Floats x) {
    for (size_t i = 0; i < WIDE; i++) x[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f));
    return x;
}

template <int KIND>
inline Floats activated(const bl_activation& given, Floats x) {
    if (KIND == BL_SILU) return x * sigmoid(x);
    if (KIND == BL_GELU) return gelu(x);
    if (KIND == BL_GELU_TANH) return x * sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
    if (KIND == BL_RELU2) return most(x, all(0.0f)) * most(x, all(0.0f));
    return x * sigmoid(given.alpha * x);
}

template <int KIND>
inline Floats network(const bl_activation& given, const Floats* gate, Floats up) {
    if (KIND != BL_CLAMPED) return gate ? activated<KIND>(given, *gate) * up : activated<KIND>(given, up);
    const Floats limit = all(given.limit);
    return activated<KIND>(given, least(*gate, limit)) * (least(most(up, -limit), limit) + 1.0f);
}

// `bytes` of a vector; the compiler sees that they are all of it but at the end.
template <int KIND>
inline void activate_some(const bl_activation& given, size_t bytes, const float* gate, const float* up, float* out) {
    Floats first{}, second{};
    std::memcpy(&second, up, bytes);
    if (gate) std::memcpy(&first, gate, bytes);
    const Floats result = network<KIND>(given, gate ? &first : nullptr, second);
    std::memcpy(out, &result, bytes);
}

template <int KIND>
void activate_all(const bl_activation& given, size_t count, const float* gate, const float* up, float* out) {
    size_t i = 0;
    for (; i + WIDE <= count; i += WIDE)
        activate_some<KIND>(given, sizeof(Floats), gate ? gate + i : nullptr, up + i, out + i);
    if (i < count) activate_some<KIND>(given, 4 * (count - i), gate ? gate + i : nullptr, up + i, out + i);
}

inline void activate(const bl_activation& given, size_t count, const float* gate, const float* up, float* out) {
    switch (given.kind) {
        case BL_SILU: return activate_all<BL_SILU>(given, count, gate, up, out);
        case BL_GELU: return activate_all<BL_GELU>(given, count, gate, up, out);
        case BL_GELU_TANH: return activate_all<BL_GELU_TANH>(given, count, gate, up, out);
        case BL_RELU2: return activate_all<BL_RELU2>(given, count, gate, up, out);
        default: return activate_all<BL_CLAMPED>(given, count, gate, up, out);
    }
}

}  // namespace
}  // namespace braid

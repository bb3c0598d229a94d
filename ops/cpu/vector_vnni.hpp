// What processors with products of unsigned and signed bytes share: activations are bytes.
#pragma once

#include <cstdint>
#include <cstring>

namespace braid {
namespace {

// Codes of two levels are 256 * high + low, in bytes: first all high ones.
template <int LEVELS>
inline void split_codes(const int32_t (&codes)[32], uint8_t* out) {
    int8_t high[32], low[32];
    for (int i = 0; i < 32; i++) low[i] = static_cast<int8_t>(codes[i]);
    for (int i = 0; i < 32; i++) high[i] = static_cast<int8_t>((codes[i] + 128) >> 8);
    std::memcpy(out, LEVELS == 1 ? low : high, 32);
    if (LEVELS == 2) std::memcpy(out + 32, low, 32);
}

template <class V, int LEVELS>
struct ByteSums {
    typename V::Int high, low;

    void begin(int32_t value) {
        high = V::broadcast(0);
        low = V::broadcast(value);
    }
    void add(typename V::Codes line, const uint8_t* activations, int i) {
        if (LEVELS == 2) high = V::dot(high, line, V::broadcast_four(activations + 4 * i));
        low = V::dot(low, line, V::broadcast_four(activations + (LEVELS == 2 ? 32 : 0) + 4 * i));
    }
    typename V::Float value() const { return V::to_float(LEVELS == 2 ? V::add_256(low, high) : low); }
};

}  // namespace
}  // namespace braid

// Rounding of activations, for vectors V (block_products.hpp).
#pragma once

#include "vector_common.hpp"

namespace braid {
namespace {

constexpr int32_t LEAST = (127 - 100) << 23;  // bits of the least number that does not count as 0: 2^-100
constexpr int32_t INFINITE = 255 << 23;       // bits of infinity; those of NaN are above

// A panel is up to MOST_ROWS rows, a power of two.  For each segment it has the codes of its rows, then for
// each row: the scale, the sum of the codes, that of the first half of them, and scale * sum as float32.
enum Number { SCALE, SUM, FIRST_SUM, VALUE, NUMBERS };

template <class V, int LEVELS>
constexpr size_t ROW_BYTES = V::template CODE_BYTES<LEVELS> + 4 * NUMBERS;

inline size_t panel_rows(size_t left, size_t most) {
    while (most > left) most /= 2;
    return most;
}

// `count` numbers as float32, and zeros up to 32.
inline void read_segment(int type, const uint8_t* x, size_t count, float (&out)[SEGMENT]) {
    std::memset(out, 0, sizeof(out));
    if (type == BL_F32) return void(std::memcpy(out, x, 4 * count));
    alignas(64) uint16_t halves[SEGMENT] = {};
    std::memcpy(halves, x, 2 * count);
    if (type == BL_F16) return halves_to_floats(reinterpret_cast<const uint8_t*>(halves), SEGMENT, out);
    uint32_t bits[SEGMENT];
    for (size_t i = 0; i < SEGMENT; i++) bits[i] = uint32_t(halves[i]) << 16;
    std::memcpy(out, bits, sizeof(out));
}

// Rounds a segment to `codes` and returns its scale.
inline float round_segment(const float (&x)[SEGMENT], float largest_code, int32_t (&codes)[SEGMENT]) {
    int32_t bits[SEGMENT], most = 0;
    std::memcpy(bits, x, sizeof(bits));
    for (size_t i = 0; i < SEGMENT; i++) {
        const int32_t size = bits[i] & 0x7fffffff;
        most = size > most ? size : most;
    }
    std::memset(codes, 0, sizeof(codes));
    if (most < LEAST) return 0.0f;
    if (most >= INFINITE) return read<float>(&most) - read<float>(&most);  // NaN
    const float largest = read<float>(&most), inverse = largest_code / largest;
    constexpr float MAGIC = 12582912.0f;  // 1.5 * 2^23: its last bits are the nearest integer of what is added
    float moved[SEGMENT];
    for (size_t i = 0; i < SEGMENT; i++) moved[i] = x[i] * inverse + MAGIC;
    std::memcpy(codes, moved, sizeof(moved));
    for (size_t i = 0; i < SEGMENT; i++) codes[i] -= 0x4b400000;
    return largest / largest_code;
}

template <class V, int LEVELS>
void round_tile(int type, size_t rows, size_t k, const uint8_t* const* x, uint8_t* out) {
    const size_t size = type == BL_F32 ? 4 : 2, segments = segments_of(k);
    for (size_t first = 0, panel; first < rows; first += panel) {
        panel = panel_rows(rows - first, V::MOST_ROWS);
        for (size_t s = 0; s < segments; s++, out += panel * ROW_BYTES<V, LEVELS>)
            for (size_t r = 0; r < panel; r++) {
                const size_t count = k - s * SEGMENT < SEGMENT ? k - s * SEGMENT : SEGMENT;
                alignas(64) float values[SEGMENT];
                alignas(64) int32_t codes[SEGMENT];
                read_segment(type, x[first + r] + s * SEGMENT * size, count, values);
                const float scale = round_segment(values, LEVELS == 1 ? 127.0f : 32639.0f, codes);
                int32_t half = 0, sum = 0;
                for (size_t i = 0; i < SEGMENT / 2; i++) half += codes[i], sum += codes[SEGMENT / 2 + i];
                sum += half;
                V::template put<LEVELS>(codes, out + r * V::template CODE_BYTES<LEVELS>);
                const float value = scale * static_cast<float>(sum);
                uint8_t* numbers = out + panel * V::template CODE_BYTES<LEVELS> + 4 * r;
                std::memcpy(numbers + 4 * panel * SCALE, &scale, 4);
                std::memcpy(numbers + 4 * panel * SUM, &sum, 4);
                std::memcpy(numbers + 4 * panel * FIRST_SUM, &half, 4);
                std::memcpy(numbers + 4 * panel * VALUE, &value, 4);
            }
    }
}

}  // namespace
}  // namespace braid

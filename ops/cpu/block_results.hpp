// Results as the caller wants them, for vectors V (block_products.hpp).
#pragma once

#include "block_activations.hpp"

namespace braid {
namespace {

// Whole blocks by a few instructions.
template <size_t SIZE>
inline void copy(const void* values, size_t count, uint8_t* y) {
    count == CHANNELS ? std::memcpy(y, values, SIZE * CHANNELS) : std::memcpy(y, values, SIZE * count);
}

template <class V>
inline void write_row(int type, const float (&totals)[CHANNELS], size_t count, uint8_t* y) {
    if (type == BL_F32) return copy<4>(totals, count, y);
    uint16_t halves[CHANNELS];
    if (type == BL_F16)
        for (size_t i = 0; i < CHANNELS; i += V::LANES)
            V::put_halves(reinterpret_cast<uint8_t*>(halves + i), V::load(totals + i));
    else
        for (size_t i = 0; i < CHANNELS; i++) {
            const uint32_t bits = read<uint32_t>(totals + i);
            const bool is_nan = (bits & 0x7fffffff) > uint32_t(INFINITE);
            halves[i] = is_nan ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        }
    copy<2>(halves, count, y);
}

inline uint8_t* result_of(const Product& product, size_t block, size_t row) {
    const size_t at = (row - product.first_row) * product.stride + (block - product.first_block) * CHANNELS;
    return product.y + at * (product.type == BL_F32 ? 4 : 2);
}

// Rows [from, from + rows) of a block of channels, of which the last may have fewer than CHANNELS.
template <class V>
void write_block(const Product& product, size_t block, size_t from, size_t rows, const float (*totals)[CHANNELS]) {
    const size_t left = product.n - block * CHANNELS;
    for (size_t r = 0; r < rows; r++)
        write_row<V>(product.type, totals[r], left < CHANNELS ? left : CHANNELS,
                     result_of(product, block, from + r));
}

}  // namespace
}  // namespace braid

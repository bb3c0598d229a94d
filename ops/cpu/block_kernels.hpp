// What each instruction set gives: rounding of activations, and the product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block_linear.h"

namespace braid {

// Rows of a product, all where they are few.  `rounded` and `packed` begin with the first of all m rows and n channels.
struct Product {
    const bl_format& format;
    int levels, type;
    size_t m, n, k;
    const uint8_t *rounded, *packed;
    uint8_t* y;  // begins with first_row, which is a multiple of TILE_ROWS, and with first_block
    size_t stride;
    size_t first_row, end_row, first_block;
};

// A product in float32, whose weight is [k][n]; columns are computed from a multiple of 16 to another.
struct FloatProduct {
    size_t m, n, k;
    const float* x;
    size_t stride;
    const float* weight;
    float* y;
};

// Rounds 16 rows at most.
using Round = void (*)(int type, size_t rows, size_t k, const uint8_t* const* x, uint8_t* tile);

struct Kernels {
    const char* name;
    size_t few_rows;      // up to which activations of two levels are held in another way
    size_t row_bytes[2];  // of a row's segment, rounded to one and to two levels
    Round round[2][2];    // of few and of many rows, to one and to two levels
    void (*multiply)(const Product& product, size_t begin, size_t end);
    void (*multiply_floats)(const FloatProduct& product, size_t begin, size_t end);
};

extern const Kernels AVX512VNNI_KERNELS, AVXVNNI_KERNELS, AVX2_KERNELS, NEON_KERNELS;

}  // namespace braid

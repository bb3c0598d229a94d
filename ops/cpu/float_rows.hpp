// Products in float32 with small weights, for vectors V (block_products.hpp).  Each result is a sum of its own, in the
// same order on each instruction set and beside any other rows.
#pragma once

#include "block_activations.hpp"

namespace braid {
namespace {

constexpr size_t SUMMED = 128;  // products that are summed before their sum is added to others

// ROWS x COLUMNS vectors of y = x . w, where w is [k][n].
template <class V, size_t ROWS, size_t COLUMNS>
void multiply_panel(size_t n, size_t k, const float* x, size_t stride, const float* weight, float* y) {
    using Float = typename V::Float;
    Float totals[ROWS][COLUMNS];
    for (auto& row : totals)
        for (Float& total : row) total = V::broadcast(0.0f);
    for (size_t first = 0; first < k; first += SUMMED) {
        const size_t last = k - first < SUMMED ? k : first + SUMMED;
        Float sums[ROWS][COLUMNS];
        for (auto& row : sums)
            for (Float& sum : row) sum = V::broadcast(0.0f);
        for (size_t i = first; i < last; i++)
            for (size_t c = 0; c < COLUMNS; c++) {
                const Float column = V::load(weight + i * n + V::LANES * c);
                for (size_t r = 0; r < ROWS; r++)
                    sums[r][c] = V::add_product(V::broadcast(x[r * stride + i]), column, sums[r][c]);
            }
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < COLUMNS; c++)
                totals[r][c] = V::add_product(sums[r][c], V::broadcast(1.0f), totals[r][c]);
    }
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < COLUMNS; c++) V::store(y + r * n + V::LANES * c, totals[r][c]);
}

// Columns [begin, end), multiples of CHANNELS.
template <class V, size_t ROWS>
void multiply_some_rows(const FloatProduct& product, size_t row, size_t begin, size_t end) {
    constexpr size_t MOST = V::LANES == 8 ? 4 : 8;  // with ROWS they are within the registers
    const float* x = product.x + row * product.stride;
    float* y = product.y + row * product.n;
    const auto multiply = [&](auto panel, size_t column) {
        panel(product.n, product.k, x, product.stride, product.weight + column, y + column);
    };
    for (; begin + MOST * V::LANES <= end; begin += MOST * V::LANES) multiply(multiply_panel<V, ROWS, MOST>, begin);
    for (; begin < end; begin += V::LANES) multiply(multiply_panel<V, ROWS, 1>, begin);
}

template <class V>
void multiply_float_rows(const FloatProduct& product, size_t begin, size_t end) {
    constexpr size_t ROWS = V::LANES == 8 ? 2 : 3;
    size_t row = 0;
    for (; row + ROWS <= product.m; row += ROWS) multiply_some_rows<V, ROWS>(product, row, begin, end);
    for (; row < product.m; row++) multiply_some_rows<V, 1>(product, row, begin, end);
}

}  // namespace
}  // namespace braid

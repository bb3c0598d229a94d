// The kernels, for vectors V of an instruction set; each source that includes this gives one.
//
// V has LANES of float32 and int32, BYTES of a register, MOST_ROWS of a panel, COLUMNS, registers of
// channels for which an activation of many rows is read once, and
//     Float, Int       vectors; load, store, add_product, broadcast, and so on
//     OneLevel, TwoLevelsOfFew, TwoLevelsOfMany
//                      int32 sums of codes times activations: CODE_BYTES of a row's segment, how they are put, and
//                      in how many parts a line of LANES channels by 4 unsigned bytes is multiplied
#pragma once

#include "block_few_rows.hpp"
#include "block_many_rows.hpp"
#include "float_rows.hpp"

namespace braid {
namespace {

template <class V>
void multiply(const Product& product, size_t begin, size_t end) {
    if (product.m > FEW_ROWS<V>)
        return product.levels == 1 ? multiply_many<V, typename V::OneLevel>(product, begin, end)
                                   : multiply_many<V, typename V::TwoLevelsOfMany>(product, begin, end);
    for (size_t block = begin; block < end; block++)
        product.levels == 1 ? multiply_few<V, typename V::OneLevel>(product, block)
                            : multiply_few<V, typename V::TwoLevelsOfFew>(product, block);
}

template <class V>
constexpr Kernels kernels_of() {
    using One = typename V::OneLevel;
    using Few = typename V::TwoLevelsOfFew;
    using Many = typename V::TwoLevelsOfMany;
    static_assert(ROW_BYTES<Few> == ROW_BYTES<Many>, "row_bytes is that of both");
    return {V::NAME,
            FEW_ROWS<V>,
            {ROW_BYTES<One>, ROW_BYTES<Many>},
            {{round_tile<V, One, 1>, round_tile<V, Few, 2>}, {round_tile<V, One, 1>, round_tile<V, Many, 2>}},
            multiply<V>,
            multiply_float_rows<V>};
}

}  // namespace
}  // namespace braid

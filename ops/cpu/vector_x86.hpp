// What x86 processors share: products of unsigned bytes times signed bytes, or of words.
#pragma once

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the compiler's own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "block_sums.hpp"

namespace braid {
namespace {

struct UnsignedOperands {
    static constexpr int OFFSET = 0;
    template <class Int>
    static Int operand(Int line) {
        return line;
    }
};

}  // namespace
}  // namespace braid

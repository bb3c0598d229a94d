// Sums of codes times activations, for vectors V (block_products.hpp): how activations are held for them, and in how
// many parts a line of codes is multiplied.
#pragma once

#include "vector_common.hpp"

namespace braid {
namespace {

// Sums of bytes times signed bytes: one level, on processors that have such products.  V::OFFSET is what
// V::operand takes from each code.
template <class V>
struct ByteSums {
    static constexpr size_t CODE_BYTES = SEGMENT;  // of a row's segment
    static constexpr int LINE_PARTS = 1;           // in which a line of bytes is multiplied
    static constexpr int OFFSET = V::OFFSET;
    using Int = typename V::Int;
    using Four = Int;  // activations as they are multiplied with a part of a line
    Int sum;

    static Four four(const uint8_t* codes, int part) { return V::broadcast_four(codes + 4 * part); }
    static Int part(Int unpacked) { return V::operand(unpacked); }
    static void split(Int line, Int (&parts)[1]) { parts[0] = V::operand(line); }
    static void put(const Int (&codes)[SEGMENT / V::LANES], uint8_t* out) { V::put_as_bytes(codes, out); }
    void begin(Int start) { sum = start; }
    void add(Int part, Four four) { sum = V::dot(sum, part, four); }
    typename V::Float value() const { return V::to_float(sum); }
};

// Two levels of few rows by the same products: activations are 256 * high + low, first all high bytes.
template <class V>
struct TwoByteSums {
    static constexpr size_t CODE_BYTES = 2 * SEGMENT;
    static constexpr int LINE_PARTS = 1, OFFSET = V::OFFSET;
    using Int = typename V::Int;
    struct Four {
        Int high, low;
    };
    Int high, low;

    static Four four(const uint8_t* codes, int part) {
        return {V::broadcast_four(codes + 4 * part), V::broadcast_four(codes + SEGMENT + 4 * part)};
    }
    static Int part(Int unpacked) { return V::operand(unpacked); }
    static void split(Int line, Int (&parts)[1]) { parts[0] = V::operand(line); }
    static void put(const Int (&codes)[SEGMENT / V::LANES], uint8_t* out) {
        Int upper[SEGMENT / V::LANES], lower[SEGMENT / V::LANES];
        for (size_t i = 0; i < SEGMENT / V::LANES; i++) {
            upper[i] = V::shifted_down_8(V::add(codes[i], V::broadcast(128)));
            lower[i] = V::subtract(codes[i], V::shifted_up_8(upper[i]));
        }
        V::put_as_bytes(upper, out);
        V::put_as_bytes(lower, out + SEGMENT);
    }
    void begin(Int start) {
        high = V::broadcast(0);
        low = start;
    }
    void add(Int part, const Four& four) {
        high = V::dot(high, part, four.high);
        low = V::dot(low, part, four.low);
    }
    typename V::Float value() const { return V::to_float(V::add(V::shifted_up_8(high), low)); }
};

// Sums of words times words: two levels, or one on processors without exact sums of bytes.  Words take longer to
// unpack than bytes, and are half as many products as two levels of bytes and their sum.  The even and the
// odd bytes of a line are parts of their own, so weights k, k + 2, k + 1, k + 3 follow each other.
template <class V>
struct WordSums {
    static constexpr size_t CODE_BYTES = 2 * SEGMENT;
    static constexpr int LINE_PARTS = 2, OFFSET = 0;
    using Int = typename V::Int;
    using Four = Int;  // two words
    Int sum;

    static Four four(const uint8_t* codes, int part) { return V::broadcast_four(codes + 4 * part); }
    static Int part(Int unpacked) { return unpacked; }
    static void split(Int line, Int (&parts)[2]) {
        parts[0] = V::even_bytes(line);
        parts[1] = V::odd_bytes(line);
    }
    static void put(const Int (&codes)[SEGMENT / V::LANES], uint8_t* out) { V::put_as_words(codes, out); }
    void begin(Int start) { sum = start; }
    void add(Int part, Four two) { sum = V::dot_words(sum, part, two); }
    typename V::Float value() const { return V::to_float(sum); }
};

}  // namespace
}  // namespace braid

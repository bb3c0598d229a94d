// The types of blocks in GGUF files, and where their codes, scales and minimums are.  The layouts are those of ggml.
//
// What reads a block is given as `From`: of one row, words are uint32_t; of several rows they are vectors, and all
// rows are read together.
#pragma once

#include <cstring>

#include "block_layout.hpp"
#include "gguf_blocks.h"

namespace braid {
namespace {

template <class From>
using Lines = typename From::Words[LINES];  // the codes of a segment, four in each word

// Integers of scales and minimums of a block of two levels, those of four groups in each word.
template <class From>
struct Numbers {
    typename From::Words scales[4], minimums[4];
};

constexpr uint32_t NIBBLES = 0x0f0f0f0f, SIGNS = 0x80808080, SIXTEENS = 0x10101010, PAIRS = 0x03030303;

// Four bits of a word as the fifth bits of four codes.
template <class Words>
Words fifth_bits(Words four) {
    return (four & 15) * 0x00204081 << 4 & SIXTEENS;
}

// Codes of 16 bytes: their lower nibbles, then their upper ones.
template <class From>
void two_halves(const From& from, size_t at, Lines<From>& lines) {
    typename From::Words words[4];
    from.read(at, words);
    for (size_t i = 0; i < 4; i++) {
        lines[i] = words[i] & NIBBLES;
        lines[i + 4] = words[i] >> 4 & NIBBLES;
    }
}

// 32 bytes.
template <class From>
void read_eight(const From& from, size_t at, Lines<From>& words) {
    for (size_t i = 0; i < LINES; i += 4) from.read(at + 4 * i, *reinterpret_cast<typename From::Words(*)[4]>(words + i));
}

// Segment `s` of codes whose pairs of segments are the lower and the upper nibbles of 32 bytes.
template <class From>
void one_half(const From& from, size_t at, size_t s, Lines<From>& lines) {
    read_eight(from, at + s / 2 * 32, lines);
    for (size_t i = 0; i < LINES; i++) lines[i] = lines[i] >> s % 2 * 4 & NIBBLES;
}

template <class From>
void add_fifth_bits(const From& from, size_t at, Lines<From>& lines) {
    const typename From::Words all = from.word(at);
    for (size_t i = 0; i < LINES; i++) lines[i] |= fifth_bits(all >> 4 * i);
}

// The lines of segment `s` of a block.
template <class From>
void q4_0(const From& from, size_t, Lines<From>& lines) { two_halves(from, 2, lines); }

template <class From>
void q4_1(const From& from, size_t, Lines<From>& lines) { two_halves(from, 4, lines); }

template <class From>
void mxfp4(const From& from, size_t, Lines<From>& lines) { two_halves(from, 1, lines); }

template <class From>
void q5_0(const From& from, size_t, Lines<From>& lines) {
    two_halves(from, 6, lines);
    add_fifth_bits(from, 2, lines);
    for (typename From::Words& line : lines) line += SIXTEENS;  // their zero is 16, that of six bits is 32
}

template <class From>
void q5_1(const From& from, size_t, Lines<From>& lines) {
    two_halves(from, 8, lines);
    add_fifth_bits(from, 4, lines);
}

template <class From>
void q8_0(const From& from, size_t, Lines<From>& lines) {
    read_eight(from, 2, lines);
    for (typename From::Words& line : lines) line ^= SIGNS;
}

template <class From>
void q4_k(const From& from, size_t s, Lines<From>& lines) { one_half(from, 16, s, lines); }

template <class From>
void q5_k(const From& from, size_t s, Lines<From>& lines) {
    Lines<From> upper;
    one_half(from, 48, s, lines);
    read_eight(from, 16, upper);
    for (size_t i = 0; i < LINES; i++) lines[i] |= (upper[i] >> s & 0x01010101) << 4;
}

// Half a block is 128 codes: 64 bytes of nibbles, lower ones first, and 32 bytes with two more bits of four.
template <class From>
void q6_k(const From& from, size_t s, Lines<From>& lines) {
    const size_t half = s / 4, quarter = s % 4;
    Lines<From> upper;
    read_eight(from, 64 * half + 32 * (quarter % 2), lines);
    read_eight(from, 128 + 32 * half, upper);
    for (size_t i = 0; i < LINES; i++)
        lines[i] = (lines[i] >> quarter / 2 * 4 & NIBBLES) | (upper[i] >> 2 * quarter & PAIRS) << 4;
}

// Six bits each, of eight groups: the first four whole, of the others the upper two bits beside those.
template <class From>
void k_numbers(const From& from, Numbers<From>& out) {
    const typename From::Words scales = from.word(4), minimums = from.word(8), rest = from.word(12);
    out.scales[0] = scales & 0x3f3f3f3f;
    out.minimums[0] = minimums & 0x3f3f3f3f;
    out.scales[1] = (rest & NIBBLES) | (scales >> 6 & PAIRS) << 4;
    out.minimums[1] = (rest >> 4 & NIBBLES) | (minimums >> 6 & PAIRS) << 4;
}

template <class From>
void q6_k_numbers(const From& from, Numbers<From>& out) { from.read(192, out.scales); }

struct Type {
    int number;
    size_t weights, bytes;
    bl_format format;
    size_t scale;  // where the scale of a block is: a float16 or, of E8M0, a byte

    bool has_minimum() const { return format.zeros == BL_MINIMUM; }
    bool has_two_levels() const { return format.scales == BL_TWO_LEVEL; }
    size_t segments() const { return weights / SEGMENT; }
};

constexpr bl_format single(int bits, int zeros) { return {bits, 32, BL_F16, zeros, BL_LINEAR}; }
constexpr bl_format two_level(int bits, int group, int zeros) { return {bits, group, BL_TWO_LEVEL, zeros, BL_LINEAR}; }

constexpr Type TYPES[] = {
    {BL_Q4_0, 32, 18, single(4, BL_MIDDLE), 0},
    {BL_Q4_1, 32, 20, single(4, BL_MINIMUM), 0},
    {BL_Q5_0, 32, 22, single(6, BL_MIDDLE), 0},
    {BL_Q5_1, 32, 24, single(6, BL_MINIMUM), 0},
    {BL_Q8_0, 32, 34, single(8, BL_MIDDLE), 0},
    {BL_Q4_K, 256, 144, two_level(4, 32, BL_MINIMUM), 0},
    {BL_Q5_K, 256, 176, two_level(6, 32, BL_MINIMUM), 0},
    {BL_Q6_K, 256, 210, two_level(6, 16, BL_MIDDLE), 208},
    {BL_MXFP4, 32, 17, {4, 32, BL_E8M0, BL_MIDDLE, BL_E2M1}, 0},
};

inline const Type* find(int number) {
    for (const Type& type : TYPES)
        if (type.number == number) return &type;
    return nullptr;
}

// How a type is read.
template <class From>
struct Reading {
    void (*lines)(const From& from, size_t segment, Lines<From>& lines);
    void (*numbers)(const From& from, Numbers<From>& numbers);  // of two levels
};

template <class From>
Reading<From> reading_of(int number) {
    switch (number) {
        case BL_Q4_0: return {q4_0<From>, nullptr};
        case BL_Q4_1: return {q4_1<From>, nullptr};
        case BL_Q5_0: return {q5_0<From>, nullptr};
        case BL_Q5_1: return {q5_1<From>, nullptr};
        case BL_Q8_0: return {q8_0<From>, nullptr};
        case BL_Q4_K: return {q4_k<From>, k_numbers<From>};
        case BL_Q5_K: return {q5_k<From>, k_numbers<From>};
        case BL_Q6_K: return {q6_k<From>, q6_k_numbers<From>};
        default: return {mxfp4<From>, nullptr};
    }
}

}  // namespace
}  // namespace braid

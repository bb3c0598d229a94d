// Packs blocks of GGUF files, several rows at once in vectors that a compiler writes for each instruction set.
#pragma once

#pragma GCC diagnostic ignored "-Wpsabi"  // no vector leaves this source

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "gguf_types.hpp"

namespace braid {
namespace {

#if defined(__AVX512F__)
constexpr size_t LANES = 16;
#elif defined(__AVX2__)
constexpr size_t LANES = 8;
#else
constexpr size_t LANES = 4;
#endif

typedef uint32_t WordOfRows __attribute__((vector_size(4 * LANES)));
typedef uint16_t HalfOfRows __attribute__((vector_size(2 * LANES)));
typedef uint8_t ByteOfRows __attribute__((vector_size(LANES)));

// A block of LANES rows, at the same place of each.
struct RowsFrom {
    using Words = WordOfRows;

    const uint8_t* rows[LANES];

    // Four bytes from `at` on.
    Words word(size_t at) const {
        Words found;
        for (size_t lane = 0; lane < LANES; lane++) {
            uint32_t one;
            std::memcpy(&one, rows[lane] + at, 4);
            found[lane] = one;
        }
        return found;
    }

    // Sixteen bytes from `at` on.
    void read(size_t at, Words (&words)[4]) const {
#if defined(__AVX512F__)
        const auto four = [&](size_t r) {  // of rows r, r + 4, r + 8 and r + 12
            __m512i all = _mm512_castsi128_si512(load(r, at));
            all = _mm512_inserti32x4(all, load(r + 4, at), 1);
            all = _mm512_inserti32x4(all, load(r + 8, at), 2);
            return _mm512_inserti32x4(all, load(r + 12, at), 3);
        };
        const __m512i a = four(0), b = four(1), c = four(2), d = four(3);
        const __m512i low_ab = _mm512_unpacklo_epi32(a, b), high_ab = _mm512_unpackhi_epi32(a, b);
        const __m512i low_cd = _mm512_unpacklo_epi32(c, d), high_cd = _mm512_unpackhi_epi32(c, d);
        words[0] = Words(_mm512_unpacklo_epi64(low_ab, low_cd));
        words[1] = Words(_mm512_unpackhi_epi64(low_ab, low_cd));
        words[2] = Words(_mm512_unpacklo_epi64(high_ab, high_cd));
        words[3] = Words(_mm512_unpackhi_epi64(high_ab, high_cd));
#elif defined(__AVX2__)
        const auto two = [&](size_t r) { return _mm256_inserti128_si256(_mm256_castsi128_si256(load(r, at)), load(r + 4, at), 1); };
        const __m256i a = two(0), b = two(1), c = two(2), d = two(3);
        const __m256i low_ab = _mm256_unpacklo_epi32(a, b), high_ab = _mm256_unpackhi_epi32(a, b);
        const __m256i low_cd = _mm256_unpacklo_epi32(c, d), high_cd = _mm256_unpackhi_epi32(c, d);
        words[0] = Words(_mm256_unpacklo_epi64(low_ab, low_cd));
        words[1] = Words(_mm256_unpackhi_epi64(low_ab, low_cd));
        words[2] = Words(_mm256_unpacklo_epi64(high_ab, high_cd));
        words[3] = Words(_mm256_unpackhi_epi64(high_ab, high_cd));
#else
        for (size_t i = 0; i < 4; i++) words[i] = word(at + 4 * i);
#endif
    }

#if defined(__AVX2__)
    __m128i load(size_t row, size_t at) const {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row] + at));
    }
#endif
};

template <class Values>
inline void put(uint8_t* at, const Values& values) { std::memcpy(at, &values, sizeof values); }

// LANES of the 16 channels of a block, from `lane` on.
struct Packer {
    const Type& type;
    const Reading<RowsFrom> reading;
    const uint8_t* rows[LANES];
    const size_t lane;
    WordOfRows mask;  // of channels that there are

    Packer(const Type& type, const void* const* given, size_t count, size_t lane)
        : type(type), reading(reading_of<RowsFrom>(type.number)), lane(lane) {
        for (size_t i = 0; i < LANES; i++) {
            const bool is_there = lane + i < count;
            rows[i] = static_cast<const uint8_t*>(given[is_there ? lane + i : 0]);
            mask[i] = is_there ? ~0u : 0;
        }
    }

    // Block `number` of the rows.
    RowsFrom block(size_t number) const {
        RowsFrom from;
        for (size_t i = 0; i < LANES; i++) from.rows[i] = rows[i] + number * type.bytes;
        return from;
    }

    // A unit: `count` segments from `first` on of the rows.
    void pack(size_t first, size_t count, uint8_t* out) const {
        const size_t in_block = type.segments();
        for (size_t s = 0; s < count; s++) {
            Lines<RowsFrom> lines;
            reading.lines(block((first + s) / in_block), (first + s) % in_block, lines);
            for (WordOfRows& line : lines) line &= mask;
            write_lines(lines, out + s * code_bytes(type.format) + 4 * lane);
        }
        write_scales(first / in_block, groups_of(type.format, count), out + count * code_bytes(type.format));
    }

    void write_lines(const Lines<RowsFrom>& lines, uint8_t* out) const {
        const int bits = type.format.bits;
        for (size_t i = 0; i < LINES && bits == 8; i++) put(out + LINE_BYTES * i, lines[i]);
        if (bits == 8) return;
        for (size_t i = 0; i < 4; i++)
            put(out + LINE_BYTES * i, (lines[2 * i] & NIBBLES) | (lines[2 * i + 1] & NIBBLES) << 4);
        const auto upper = [&](size_t i) { return lines[i] >> 4 & PAIRS; };
        for (size_t i = 0; i < 2 && bits == 6; i++)
            put(out + LINE_BYTES * (4 + i),
                upper(4 * i) | upper(4 * i + 1) << 2 | upper(4 * i + 2) << 4 | upper(4 * i + 3) << 6);
    }

    // The scales and minimums of a unit of `groups` groups, whose first block is `first`.
    void write_scales(size_t first, size_t groups, uint8_t* out) const {
        uint8_t* minimums = out + scale_bytes(type.format, groups);
        if (type.has_two_levels()) return write_two_levels(block(first), groups, out, minimums);
        for (size_t g = 0; g < groups; g++) {
            const RowsFrom from = block(first + g);
            if (type.format.scales == BL_E8M0) {
                put_byte(out + CHANNELS * g, from.word(type.scale));
                continue;
            }
            const WordOfRows both = from.word(type.scale);
            put_half(out + 2 * CHANNELS * g, both);
            if (type.has_minimum()) put_half(minimums + 2 * CHANNELS * g, both >> 16);
        }
    }

    // The halves of K types are both in one word; the minimums' is subtracted.  That of Q6_K is a block's end.
    void write_two_levels(const RowsFrom& from, size_t groups, uint8_t* out, uint8_t* minimums) const {
        Numbers<RowsFrom> numbers;
        reading.numbers(from, numbers);
        for (size_t g = 0; g < groups; g++) {
            put_byte(out + CHANNELS * g, numbers.scales[g / 4] >> 8 * (g % 4));
            if (type.has_minimum()) put_byte(minimums + CHANNELS * g, numbers.minimums[g / 4] >> 8 * (g % 4));
        }
        const WordOfRows both = type.has_minimum() ? from.word(type.scale) : from.word(type.scale - 2) >> 16;
        put_half(out + CHANNELS * groups, both);
        if (type.has_minimum()) put_half(minimums + CHANNELS * groups, both >> 16 ^ 0x8000);
    }

    void put_byte(uint8_t* at, WordOfRows values) const {
        put(at + lane, __builtin_convertvector(values & mask & 255, ByteOfRows));
    }

    void put_half(uint8_t* at, WordOfRows values) const {
        put(at + 2 * lane, __builtin_convertvector(values & mask & 0xffff, HalfOfRows));
    }
};

// The record of up to 16 channels.
inline void pack_record(const Type& type, size_t count, size_t k, const void* const* rows, uint8_t* record) {
    const size_t segments = segments_of(k);
    for (size_t lane = 0; lane < CHANNELS; lane += LANES) {
        const Packer packer(type, rows, count, lane);
        uint8_t* out = record;
        for (size_t first = 0; first < segments; first += UNIT_SEGMENTS) {
            const size_t some = segments - first < UNIT_SEGMENTS ? segments - first : UNIT_SEGMENTS;
            packer.pack(first, some, out);
            out += unit_bytes(type.format, some);
        }
    }
}

}  // namespace
}  // namespace braid

// The kernels, for vectors V of an instruction set; each source that includes this gives one.
//
// V has LANES of float32 and int32, BYTES of a register, MOST_ROWS of a panel, CODE_BYTES<levels> of a rounded
// segment, ONE_LEVEL, the levels with which products of one are computed, and
//     Float, Int          vectors; load, store, add_product, broadcast, and so on
//     Codes, codes(line)  a line of LANES channels by 4 unsigned bytes
//     Sums<levels>        int32 sums of codes times activations
//     put<levels>(..)     activations as the sums want them
#pragma once

#include "block_activations.hpp"
#include "block_weights.hpp"

namespace braid {
namespace {

constexpr size_t PREFETCHED = 4096;           // bytes ahead of what is read
constexpr size_t ACTIVATION_BYTES = 3 << 17;  // of the rows that are multiplied together, for the second cache
constexpr size_t MOST_TOGETHER = 128;         // rows

// Codes around a middle, codes from 0 with a minimum, or codes around a middle with a minimum.
enum Zeros { MIDDLE, MINIMUM, BOTH };

// Segments are unpacked between products rather than before them, so that memory is read all the time.
struct Segments {
    Unit& unit;
    size_t count;
    Unpack unpack;               // or null
    const uint8_t* packed;
    size_t packed_bytes, ahead;  // of a segment's codes; of all that it has, or 0: nothing is prefetched
    const uint8_t* codes;        // of the first segment, as `Lines` reads them
    size_t code_step;            // to the next segment
    int shift;   // segment >> shift is its group
    int middle;
    const uint8_t* activations;
    float (*totals)[CHANNELS];  // of the rows of the panel
};

// The lines of a segment, unpacked before or, for few rows, in registers.
template <class V>
struct UnpackedLines {
    static constexpr size_t PREFETCHED_LINES = 9;
    const uint8_t* at;
    typename V::Int line(int i) const { return V::bytes(at + LINE_BYTES * i); }
};

template <class V>
struct NibbleLines {
    static constexpr size_t PREFETCHED_LINES = 5;
    const uint8_t* at;
    typename V::Int line(int i) const {
        const typename V::Int two = V::bytes(at + LINE_BYTES * (i / 2));
        return i % 2 ? V::template bits<-4, 15>(two) : V::template bits<0, 15>(two);
    }
};

// Adds a unit's products to the totals of a panel of R rows.
template <class V, class Lines, int LEVELS, bool IN_HALVES, int ZEROS, int R>
void add_products(const Segments& given) {
    using Float = typename V::Float;
    constexpr size_t CODES = V::template CODE_BYTES<LEVELS>;
    constexpr int PARTS = IN_HALVES ? 2 : 1, PART_LINES = LINES / PARTS;
    for (size_t lane = 0; lane < CHANNELS; lane += V::LANES) {
        Float totals[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) totals[r] = V::load(given.totals[r] + lane);
        const uint8_t* acts = given.activations;
        for (size_t s = 0; s < given.count; s++, acts += R * ROW_BYTES<V, LEVELS>) {
            if (!lane && given.ahead)
#pragma GCC unroll 9
                for (size_t line = 0; line < Lines::PREFETCHED_LINES * 64; line += 64)
                    _mm_prefetch(given.packed + s * given.ahead + line + PREFETCHED, _MM_HINT_T0);
            if (!lane && given.unpack)
                given.unpack(given.packed + s * given.packed_bytes, given.unit.codes[s]);
            const Lines lines{given.codes + s * given.code_step + 4 * lane};
            const auto number = [&](Number which, int r) { return acts + R * (CODES + 4 * which) + 4 * r; };
            const auto sum_of = [&](int part, int r) {
                if (!IN_HALVES) return read<int32_t>(number(SUM, r));
                const int32_t first = read<int32_t>(number(FIRST_SUM, r));
                return part ? read<int32_t>(number(SUM, r)) - first : first;
            };
#pragma GCC unroll 2
            for (int part = 0; part < PARTS; part++) {
                typename V::template Sums<LEVELS> sums[R];
#pragma GCC unroll 8
                for (int r = 0; r < R; r++)
                    sums[r].begin(ZEROS == MINIMUM ? 0 : -given.middle * sum_of(part, r));
#pragma GCC unroll 8
                for (int i = part * PART_LINES; i < (part + 1) * PART_LINES; i++) {
                    const typename V::Codes line = V::codes(lines.line(i));
#pragma GCC unroll 8
                    for (int r = 0; r < R; r++) sums[r].add(line, acts + r * CODES, i);
                }
                const size_t group = IN_HALVES ? 2 * s + part : s >> given.shift;
                const Float scale = V::load(given.unit.scales + CHANNELS * group + lane);
                const Float minimum = ZEROS == MIDDLE ? scale : V::load(given.unit.minimums + CHANNELS * group + lane);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    const Float scaled = V::multiply(scale, V::broadcast(read<float>(number(SCALE, r))));
                    totals[r] = V::add_product(sums[r].value(), scaled, totals[r]);
                    if (ZEROS == MIDDLE) continue;
                    const float value = !IN_HALVES ? read<float>(number(VALUE, r))
                                                   : read<float>(number(SCALE, r)) *
                                                         static_cast<float>(sum_of(part, r));
                    totals[r] = V::add_product(minimum, V::broadcast(value), totals[r]);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) V::store(given.totals[r] + lane, totals[r]);
    }
}

using AddProducts = void (*)(const Segments&);

// Of panels of 1, 2, 4 and 8 rows.
template <class V, class Lines, int LEVELS, bool IN_HALVES, int ZEROS>
AddProducts for_rows(size_t rows) {
    if (rows == 1) return add_products<V, Lines, LEVELS, IN_HALVES, ZEROS, 1>;
    if (rows == 2) return add_products<V, Lines, LEVELS, IN_HALVES, ZEROS, 2>;
    if constexpr (V::MOST_ROWS == 8)
        if (rows == 8) return add_products<V, Lines, LEVELS, IN_HALVES, ZEROS, 8>;
    return add_products<V, Lines, LEVELS, IN_HALVES, ZEROS, 4>;
}

template <class V, int LEVELS>
AddProducts for_format(const bl_format& format, bool are_nibbles, size_t rows) {
    using Lines = UnpackedLines<V>;
    const bool has_middle = format.zeros == BL_MIDDLE;
    if (are_nibbles)
        return has_middle ? for_rows<V, NibbleLines<V>, LEVELS, false, MIDDLE>(rows)
                          : for_rows<V, NibbleLines<V>, LEVELS, false, MINIMUM>(rows);
    if (format.group == 16)
        return has_middle ? for_rows<V, Lines, LEVELS, true, MIDDLE>(rows)
                          : for_rows<V, Lines, LEVELS, true, BOTH>(rows);
    if (has_middle) return for_rows<V, Lines, LEVELS, false, MIDDLE>(rows);
    if (format.zeros == BL_MINIMUM) return for_rows<V, Lines, LEVELS, false, MINIMUM>(rows);
    return for_rows<V, Lines, LEVELS, false, BOTH>(rows);
}

inline void write_row(int type, const float (&totals)[CHANNELS], size_t count, uint8_t* y) {
    if (type == BL_F32) return void(std::memcpy(y, totals, 4 * count));
    uint16_t halves[CHANNELS];
    if (type == BL_F16)
        for (size_t i = 0; i < CHANNELS; i += 8) {
            const __m128i eight = _mm256_cvtps_ph(_mm256_loadu_ps(totals + i), _MM_FROUND_TO_NEAREST_INT);
            std::memcpy(halves + i, &eight, 16);
        }
    else
        for (size_t i = 0; i < CHANNELS; i++) {
            const uint32_t bits = read<uint32_t>(totals + i);
            const bool is_nan = (bits & 0x7fffffff) > uint32_t(INFINITE);
            halves[i] = is_nan ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        }
    std::memcpy(y, halves, 2 * count);
}

inline int shift_of(const bl_format& format) {
    return format.group == 0 ? 31 : format.group == 128 ? 2 : format.group == 64 ? 1 : 0;
}

// How a block is multiplied by some rows.
struct Block {
    const Product& product;
    size_t from, rows;
    bool are_nibbles;  // 4 bits and few rows: the codes are read as they are
};

// Adds the unit whose first segment is `first` to the totals of the block's rows.
template <class V, int LEVELS>
void add_unit(const Block& block, Segments given, size_t first) {
    const size_t segments = segments_of(block.product.k), end = block.from + block.rows;
    for (size_t row = block.from, panel; row < end; row += panel) {
        const size_t in_tile = TILE_ROWS - row % TILE_ROWS, left = end - row;
        panel = panel_rows(left < in_tile ? left : in_tile, V::MOST_ROWS);
        given.activations =
            block.product.rounded + (row * segments + first * panel) * ROW_BYTES<V, LEVELS>;
        for_format<V, LEVELS>(block.product.format, block.are_nibbles, panel)(given);
        given.unpack = nullptr;
        given.ahead = 0;
        given.totals += panel;
    }
}

// A unit at `at`; its scales are unpacked, its codes are not yet.
template <class V>
Segments segments_at(const bl_format& format, const uint8_t* at, size_t count, bool are_nibbles, Unit& unit) {
    const size_t codes = code_bytes(format);
    if (format.group) unpack_groups<V>(format, at + count * codes, groups_of(format, count), unit);
    const bool as_they_are = are_nibbles || format.bits == 8;
    return {unit,
            count,
            as_they_are ? nullptr : unpack_of<V>(format),
            at,
            codes,
            ratio_up(unit_bytes(format, count), count),
            as_they_are ? at : unit.codes[0],
            as_they_are ? codes : sizeof(unit.codes[0]),
            shift_of(format),
            middle_of(format),
            nullptr,
            nullptr};
}

template <class V, int LEVELS>
void multiply_block(const Product& product, size_t index, size_t from, size_t rows) {
    const bl_format& format = product.format;
    const size_t segments = segments_of(product.k), left = product.n - index * CHANNELS;
    const bool are_nibbles = format.bits == 4 && !format.table && format.group != 16 &&
                             format.zeros != BL_INTEGER && rows <= V::MOST_ROWS;
    const Block block{product, from, rows, are_nibbles};
    const uint8_t* at = product.packed + index * record_bytes(format, product.k);
    alignas(64) float totals[MOST_TOGETHER][CHANNELS];
    std::memset(totals, 0, rows * sizeof(totals[0]));
    Unit unit;
    if (!format.group) unpack_groups<V>(format, at, 1, unit);
    at += header_bytes(format);
    for (size_t first = 0, count; first < segments; first += count) {
        count = segments - first < UNIT_SEGMENTS ? segments - first : UNIT_SEGMENTS;
        Segments given = segments_at<V>(format, at, count, are_nibbles, unit);
        given.totals = totals;
        add_unit<V, LEVELS>(block, given, first);
        at += unit_bytes(format, count);
    }
    const size_t size = product.type == BL_F32 ? 4 : 2;
    for (size_t r = 0; r < rows; r++)
        write_row(product.type, totals[r], left < CHANNELS ? left : CHANNELS,
                  product.y + ((from + r) * product.stride + index * CHANNELS) * size);
}

template <class V, int LEVELS>
void multiply_blocks(const Product& product, size_t begin, size_t end) {
    const size_t row_bytes = segments_of(product.k) * ROW_BYTES<V, LEVELS>;
    size_t together = ACTIVATION_BYTES / row_bytes / TILE_ROWS * TILE_ROWS;
    together = together > MOST_TOGETHER ? MOST_TOGETHER : together < TILE_ROWS ? TILE_ROWS : together;
    for (size_t from = 0; from < product.m; from += together) {
        const size_t rows = product.m - from < together ? product.m - from : together;
        for (size_t block = begin; block < end; block++)
            multiply_block<V, LEVELS>(product, block, from, rows);
    }
}

template <class V>
void multiply(const Product& product, size_t begin, size_t end) {
    product.levels == 1 ? multiply_blocks<V, V::ONE_LEVEL>(product, begin, end)
                        : multiply_blocks<V, 2>(product, begin, end);
}

template <class V>
constexpr Kernels KERNELS = {V::NAME,
                             {ROW_BYTES<V, 1>, ROW_BYTES<V, 2>},
                             {round_tile<V, 1>, round_tile<V, 2>},
                             multiply<V>};

}  // namespace
}  // namespace braid

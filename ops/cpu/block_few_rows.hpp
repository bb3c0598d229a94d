// Products of few rows, as fast as the weights are read: each is unpacked while it is multiplied.
#pragma once

#include "block_results.hpp"
#include "block_weights.hpp"

namespace braid {
namespace {

constexpr size_t PREFETCHED = 4096;  // bytes ahead of what is read

// Rows that are multiplied while weights are unpacked; for more than these the weights are unpacked before.
template <class V>
constexpr size_t FEW_ROWS = 2 * V::MOST_ROWS;

// Segments are unpacked between products rather than before them, so that memory is read all the time.
struct Segments {
    Unit& unit;
    size_t count;
    Unpack unpack;               // or null
    const uint8_t* packed;
    size_t packed_bytes, ahead;  // of a segment's codes; of all that it has, or 0: nothing is prefetched
    const uint8_t* codes;        // of the first segment, as `Lines` reads them
    size_t code_step;            // to the next segment
    int shift;                   // segment >> shift is its group
    int middle;                  // of the codes as they are multiplied
    const uint8_t* activations;
    float (*totals)[CHANNELS];  // of the rows of the panel
};

// The lines of a segment, unpacked before or, of 4 bits, in registers.
template <class V>
struct ByteLines {
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
template <class V, class Lines, class Sums, bool IN_HALVES, int ZEROS, int R>
void add_products(const Segments& given) {
    using Float = typename V::Float;
    constexpr int HALVES = IN_HALVES ? 2 : 1, HALF_LINES = LINES / HALVES, PARTS = Sums::LINE_PARTS;
    constexpr bool STARTS_AT_0 = ZEROS == MINIMUM && !Sums::OFFSET;
    for (size_t lane = 0; lane < CHANNELS; lane += V::LANES) {
        Float totals[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) totals[r] = V::load(given.totals[r] + lane);
        PanelSegment<V, Sums, IN_HALVES, R> panel{given.activations};
        for (size_t s = 0; s < given.count; s++, panel.next()) {
            if (!lane && given.ahead)
#pragma GCC unroll 9
                for (size_t line = 0; line < Lines::PREFETCHED_LINES * 64; line += 64)
                    __builtin_prefetch(given.packed + s * given.ahead + line + PREFETCHED);
            if (!lane && given.unpack)
                given.unpack(given.packed + s * given.packed_bytes, given.unit.codes + s * SEGMENT_BYTES);
            const Lines lines{given.codes + s * given.code_step + 4 * lane};
#pragma GCC unroll 2
            for (int half = 0; half < HALVES; half++) {
                const size_t group = CHANNELS * (IN_HALVES ? 2 * s + half : s >> given.shift) + lane;
                const int32_t* zeros = given.unit.zeros + group;
                Sums sums[R];
#pragma GCC unroll 8
                for (int r = 0; r < R; r++)
                    sums[r].begin(STARTS_AT_0 ? V::broadcast(0)
                                              : panel.template start<ZEROS>(given.middle, zeros, half, r));
#pragma GCC unroll 8
                for (int i = half * HALF_LINES; i < (half + 1) * HALF_LINES; i++) {
                    typename V::Int parts[PARTS];
                    Sums::split(lines.line(i), parts);
#pragma GCC unroll 8
                    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
                        for (int p = 0; p < PARTS; p++)
                            sums[r].add(parts[p], Sums::four(panel.codes(r), PARTS * i + p));
                }
                const Float scale = V::load(given.unit.scales + group);
                const Float minimum = ZEROS != MINIMUM ? scale : V::load(given.unit.minimums + group);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++)
                    totals[r] = panel.template add<ZEROS>(totals[r], sums[r].value(), half, r, scale, minimum);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) V::store(given.totals[r] + lane, totals[r]);
    }
}

using AddProducts = void (*)(const Segments&);

// Of panels of 1, 2, 4 and 8 rows.
template <class V, class Lines, class Sums, bool IN_HALVES, int ZEROS>
AddProducts for_rows(size_t rows) {
    if (rows == 1) return add_products<V, Lines, Sums, IN_HALVES, ZEROS, 1>;
    if (rows == 2) return add_products<V, Lines, Sums, IN_HALVES, ZEROS, 2>;
    if constexpr (V::MOST_ROWS == 8)
        if (rows == 8) return add_products<V, Lines, Sums, IN_HALVES, ZEROS, 8>;
    return add_products<V, Lines, Sums, IN_HALVES, ZEROS, 4>;
}

template <class V, class Lines, class Sums, bool IN_HALVES>
AddProducts for_lines(const bl_format& format, size_t rows) {
    return format.zeros == BL_MIDDLE    ? for_rows<V, Lines, Sums, IN_HALVES, MIDDLE>(rows)
           : format.zeros == BL_MINIMUM ? for_rows<V, Lines, Sums, IN_HALVES, MINIMUM>(rows)
                                        : for_rows<V, Lines, Sums, IN_HALVES, INTEGERS>(rows);
}

template <class V, class Sums>
AddProducts for_format(const bl_format& format, bool are_nibbles, size_t rows) {
    return are_nibbles           ? for_lines<V, NibbleLines<V>, Sums, false>(format, rows)
           : format.group == 16 ? for_lines<V, ByteLines<V>, Sums, true>(format, rows)
                                : for_lines<V, ByteLines<V>, Sums, false>(format, rows);
}

// A unit at `at`; its scales are unpacked, its codes are not yet.
template <class V, class Sums>
Segments segments_at(const bl_format& format, const uint8_t* at, size_t count, bool are_nibbles, Unit& unit) {
    const size_t codes = code_bytes(format);
    if (format.group) unpack_groups<V>(format, at + count * codes, groups_of(format, count), unit);
    const Unpack unpack = are_nibbles ? nullptr : unpack_of<V>(format);
    return {unit,
            count,
            unpack,
            at,
            codes,
            ratio_up(unit_bytes(format, count), count),
            unpack ? unit.codes : at,
            unpack ? SEGMENT_BYTES : codes,
            shift_of(format),
            middle_of(format) - Sums::OFFSET,
            nullptr,
            nullptr};
}

// Adds the unit whose first segment is `first` to the totals of all rows.
template <class V, class Sums>
void add_unit(const Product& product, Segments given, size_t first, bool are_nibbles) {
    const size_t segments = segments_of(product.k);
    for (size_t row = 0, panel; row < product.m; row += panel) {
        panel = panel_rows(product.m - row, V::MOST_ROWS);
        given.activations = product.rounded + (row * segments + first * panel) * ROW_BYTES<Sums>;
        for_format<V, Sums>(product.format, are_nibbles, panel)(given);
        given.unpack = nullptr;
        given.ahead = 0;
        given.totals += panel;
    }
}

// One block of all rows, which are FEW_ROWS at most.
template <class V, class Sums>
void multiply_few(const Product& product, size_t block) {
    const bl_format& format = product.format;
    const size_t segments = segments_of(product.k);
    const bool are_nibbles =
        format.bits == 4 && !format.table && format.group != 16 && product.m <= V::MOST_ROWS;
    const uint8_t* at = product.packed + block * record_bytes(format, product.k);
    alignas(64) float totals[FEW_ROWS<V>][CHANNELS];
    std::memset(totals, 0, product.m * sizeof(totals[0]));
    Unit unit;
    if (!format.group) unpack_groups<V>(format, at, 1, unit);
    at += header_bytes(format);
    for (size_t first = 0, count; first < segments; first += count) {
        count = segments - first < UNIT_SEGMENTS ? segments - first : UNIT_SEGMENTS;
        Segments given = segments_at<V, Sums>(format, at, count, are_nibbles, unit);
        given.totals = totals;
        add_unit<V, Sums>(product, given, first, are_nibbles);
        at += unit_bytes(format, count);
    }
    write_block<V>(product, block, 0, product.m, totals);
}

}  // namespace
}  // namespace braid

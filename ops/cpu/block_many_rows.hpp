// Products of many rows: weights are unpacked once, and multiplied by one panel of rows after the other.
#pragma once

#include "block_results.hpp"
#include "block_weights.hpp"

namespace braid {
namespace {

constexpr size_t ACTIVATION_BYTES = 3 << 18;  // of the rows that are multiplied together, for the second cache
constexpr size_t MOST_TOGETHER = 256;         // rows
constexpr size_t AHEAD = 512;                 // bytes of the next unit that are prefetched with a panel
constexpr size_t MOST_COLUMNS = 3;            // of V::COLUMNS

// V::LANES channels of a unit, and the totals of their rows, which are CHANNELS apart.
struct Column {
    const uint8_t* codes;  // lines of bytes or of words
    const float *scales, *minimums;
    const int32_t* zeros;
    float* totals;
};

struct Tile {
    Column columns[MOST_COLUMNS];
    size_t count, code_step;  // segments; bytes from the codes of one to those of the next
    int shift, middle;        // segment >> shift is its group; of bytes as they are multiplied, words are around 0
    const uint8_t* activations;
};

// Adds the products of a panel of R rows with C columns to their totals.
template <class V, class Sums, bool IN_HALVES, int ZEROS, int C, int R>
void add_tile(const Tile& asked) {
    const Tile given = asked;  // a copy, which no write to a total can change
    constexpr int HALVES = IN_HALVES ? 2 : 1, HALF_LINES = LINES * Sums::LINE_PARTS / HALVES;
    constexpr bool STARTS_AT_0 = Sums::LINE_PARTS == 2 || (ZEROS == MINIMUM && !Sums::OFFSET);
    PanelSegment<V, Sums, IN_HALVES, R> panel{given.activations};
    for (size_t s = 0; s < given.count; s++, panel.next())
        for (int half = 0; half < HALVES; half++) {
            const size_t group = CHANNELS * (IN_HALVES ? 2 * s + half : s >> given.shift);
            Sums sums[C][R];
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
#pragma GCC unroll 4
                for (int c = 0; c < C; c++) {
                    const int32_t* zeros = given.columns[c].zeros + group;
                    sums[c][r].begin(STARTS_AT_0 ? V::broadcast(0)
                                                 : panel.template start<ZEROS>(given.middle, zeros, half, r));
                }
            const size_t first = s * given.code_step + half * HALF_LINES * LINE_BYTES;
#pragma GCC unroll 16
            for (int i = 0; i < HALF_LINES; i++) {
                typename V::Int lines[C];
#pragma GCC unroll 4
                for (int c = 0; c < C; c++) lines[c] = Sums::part(V::bytes(given.columns[c].codes + first + i * LINE_BYTES));
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    const typename Sums::Four four = Sums::four(panel.codes(r), half * HALF_LINES + i);
#pragma GCC unroll 4
                    for (int c = 0; c < C; c++) sums[c][r].add(lines[c], four);
                }
            }
#pragma GCC unroll 4
            for (int c = 0; c < C; c++) {
                const Column& column = given.columns[c];
                const auto scale = V::load(column.scales + group);
                const auto minimum = ZEROS != MINIMUM ? scale : V::load(column.minimums + group);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    float* at = column.totals + CHANNELS * r;
                    V::store(at, panel.template add<ZEROS>(V::load(at), sums[c][r].value(), half, r, scale, minimum));
                }
            }
        }
}

using AddTile = void (*)(const Tile&);

template <class V, class Sums, bool IN_HALVES, int ZEROS, int C>
AddTile tile_of_rows(size_t rows) {
    if (rows == 1) return add_tile<V, Sums, IN_HALVES, ZEROS, C, 1>;
    if (rows == 2) return add_tile<V, Sums, IN_HALVES, ZEROS, C, 2>;
    if constexpr (V::MOST_ROWS == 8)
        if (rows == 8) return add_tile<V, Sums, IN_HALVES, ZEROS, C, 8>;
    return add_tile<V, Sums, IN_HALVES, ZEROS, C, 4>;
}

template <class V, class Sums, bool IN_HALVES, int C>
AddTile tile_of_zeros(const bl_format& format, size_t rows) {
    if (format.zeros == BL_MINIMUM) return tile_of_rows<V, Sums, IN_HALVES, MINIMUM, C>(rows);
    if (format.zeros == BL_INTEGER && Sums::LINE_PARTS == 1)  // words are around 0
        return tile_of_rows<V, Sums, IN_HALVES, INTEGERS, C>(rows);
    return tile_of_rows<V, Sums, IN_HALVES, MIDDLE, C>(rows);
}

template <class V, class Sums, int C>
AddTile tile_of_columns(const bl_format& format, size_t rows) {
    return format.group == 16 ? tile_of_zeros<V, Sums, true, C>(format, rows) : tile_of_zeros<V, Sums, false, C>(format, rows);
}

// What adds the products of a panel with 1 to V::COLUMNS columns.
template <class V, class Sums>
AddTile tile_of(const bl_format& format, size_t columns, size_t rows) {
    if constexpr (V::COLUMNS > 2)
        if (columns == 3) return tile_of_columns<V, Sums, 3>(format, rows);
    if constexpr (V::LANES == CHANNELS)
        if (columns == 1) return tile_of_columns<V, Sums, 1>(format, rows);
    return tile_of_columns<V, Sums, 2>(format, rows);
}

// The codes of a unit as the sums want them: where they are, or unpacked.
template <class V, class Sums>
const uint8_t* unpack_codes(const bl_format& format, const uint8_t* at, size_t count, Unit& unit) {
    constexpr size_t PARTS = Sums::LINE_PARTS;
    const Unpack unpack = unpack_of<V>(format);
    if (PARTS == 1 && !unpack) return at;
    const size_t halves = format.group == 16 ? 2 : 1, shift = shift_of(format);
    alignas(64) uint8_t bytes[SEGMENT_BYTES];
    for (size_t s = 0; s < count; s++, at += code_bytes(format)) {
        uint8_t* out = unit.codes + s * PARTS * SEGMENT_BYTES;
        if (unpack) unpack(at, PARTS == 1 ? out : bytes);
        for (size_t half = 0; PARTS == 2 && half < halves; half++) {
            const size_t group = halves == 2 ? 2 * s + half : s >> shift, begin = half * LINES / halves;
            const int32_t* zeros = format.zeros == BL_INTEGER ? unit.zeros + CHANNELS * group : nullptr;
            if constexpr (PARTS == 2)
                widen<V>(unpack ? bytes : at, begin, begin + LINES / halves, zeros, middle_of(format), out);
        }
    }
    return unit.codes;
}

// Adjacent blocks that are multiplied together by the same rows.
template <class V, class Sums>
struct Blocks {
    static constexpr size_t MOST = V::LANES == CHANNELS ? V::COLUMNS : 1;

    const Product& product;
    size_t block, blocks, from, rows;
    alignas(64) float totals[MOST][MOST_TOGETHER][CHANNELS];
    Unit units[MOST];

    explicit Blocks(const Product& given) : product(given) {}

    void multiply() {
        const bl_format& format = product.format;
        const size_t segments = segments_of(product.k), size = record_bytes(format, product.k);
        const uint8_t* at = product.packed + block * size;
        for (size_t b = 0; b < blocks; b++) {
            std::memset(totals[b], 0, rows * sizeof(totals[b][0]));
            if (!format.group) unpack_groups<V>(format, at + b * size, 1, units[b]);
        }
        at += header_bytes(format);
        for (size_t first = 0, count; first < segments; first += count) {
            count = segments - first < UNIT_SEGMENTS ? segments - first : UNIT_SEGMENTS;
            add_unit(at, first, count);
            at += unit_bytes(format, count);
        }
    }

private:
    // The units at `at`, and in the other blocks, whose first segment is `first`; after the last one results are
    // written, panel by panel.
    void add_unit(const uint8_t* at, size_t first, size_t count) {
        const bl_format& format = product.format;
        const size_t segments = segments_of(product.k), record = record_bytes(format, product.k), end = from + rows;
        const size_t bytes = unit_bytes(format, count);
        const uint8_t *codes[MOST] = {}, *next = at + bytes;
        for (size_t b = 0; b < blocks; b++, at += record) {
            const uint8_t* scales = at + count * code_bytes(format);
            if (format.group) unpack_groups<V>(format, scales, groups_of(format, count), units[b]);
            codes[b] = unpack_codes<V, Sums>(format, at, count, units[b]);
        }
        for (size_t row = from, panel, ahead = 0; row < end; row += panel) {
            for (size_t end_ahead = ahead + AHEAD; ahead < end_ahead && ahead < bytes; ahead += 64)
                for (size_t b = 0; b < blocks; b++) __builtin_prefetch(next + b * record + ahead);
            const size_t in_tile = TILE_ROWS - row % TILE_ROWS, left = end - row;
            panel = panel_rows(left < in_tile ? left : in_tile, V::MOST_ROWS);
            const bool is_last = first + count == segments;
            for (size_t r = 0; r < panel && is_last; r++)
                for (size_t b = 0; b < blocks; b++) __builtin_prefetch(result_of(product, block + b, row + r), 1);
            const uint8_t* activations = product.rounded + (row * segments + first * panel) * ROW_BYTES<Sums>;
            add_panel(activations, count, codes, row - from, panel);
            for (size_t b = 0; b < blocks && is_last; b++)
                write_block<V>(product, block + b, row, panel, totals[b] + row - from);
        }
    }

    void add_panel(const uint8_t* activations, size_t count, const uint8_t* const* codes, size_t row, size_t panel) {
        constexpr size_t IN_BLOCK = CHANNELS / V::LANES, PARTS = Sums::LINE_PARTS;
        const bl_format& format = product.format;
        const size_t step = codes[0] == units[0].codes ? PARTS * SEGMENT_BYTES : code_bytes(format);
        Tile tile{{}, count, step, shift_of(format), middle_of(format) - Sums::OFFSET, activations};
        for (size_t first = 0; first < blocks * IN_BLOCK; first += V::COLUMNS) {
            const size_t left = blocks * IN_BLOCK - first, columns = left < V::COLUMNS ? left : V::COLUMNS;
            for (size_t c = 0; c < columns; c++) {
                const size_t b = (first + c) / IN_BLOCK, lane = (first + c) % IN_BLOCK * V::LANES;
                tile.columns[c] = {codes[b] + 4 * lane, units[b].scales + lane, units[b].minimums + lane,
                                   units[b].zeros + lane, totals[b][row] + lane};
            }
            tile_of<V, Sums>(format, columns, panel)(tile);
        }
    }
};

// How many of the blocks that are left are multiplied together: no block alone, if there are more.
inline size_t together_of(size_t left, size_t most) {
    const size_t count = left < most ? left : most;
    return left == count + 1 && count > 2 ? count - 1 : count;
}

// Blocks [begin, end) of all rows; some rows at a time, whose activations stay in the cache.
template <class V, class Sums>
void multiply_many(const Product& product, size_t begin, size_t end) {
    Blocks<V, Sums> blocks(product);
    const size_t row_bytes = segments_of(product.k) * ROW_BYTES<Sums>;
    size_t together = ACTIVATION_BYTES / row_bytes / TILE_ROWS * TILE_ROWS;
    together = together > MOST_TOGETHER ? MOST_TOGETHER : together < TILE_ROWS ? TILE_ROWS : together;
    for (size_t from = product.first_row; from < product.end_row; from += together) {
        blocks.from = from;
        blocks.rows = product.end_row - from < together ? product.end_row - from : together;
        for (blocks.block = begin; blocks.block < end; blocks.block += blocks.blocks) {
            blocks.blocks = together_of(end - blocks.block, blocks.MOST);
            blocks.multiply();
        }
    }
}

}  // namespace
}  // namespace braid

// The layout of packed weights, shared by packing and by the kernels.
//
// A record for each block of 16 channels, padded to 64 bytes.  A record has units of 256 weights along k, the
// last may have fewer; a unit has segments of 32 weights.  A unit of S segments and G groups is
//     codes     [S][64 * bits]
//     scales    [G][16] of their type; of two levels int8 [G][16], then float16 [16]
//     zeros     BL_INTEGER: uint8 [G][16]; BL_MINIMUM: as the scales
// With one scale for a channel (group 0), scales and zeros of one group begin the record.
//
// Codes of a segment are lines of 16 channels by 4 bytes, line i having weights 4i to 4i+3 of each channel:
//     8 bits  [8 lines]
//     4 bits  [4 bytes of line 2i | line 2i+1 << 4]
//     2 bits  [2 bytes of line 4i | line 4i+1 << 2 | line 4i+2 << 4 | line 4i+3 << 6]
//     6 bits  the lower four as 4 bits, then the upper two as 2 bits
#pragma once

#include <cstddef>
#include <cstdint>

#include "block_linear.h"

namespace braid {

constexpr size_t CHANNELS = 16, SEGMENT = 32, UNIT_SEGMENTS = 8, UNIT = UNIT_SEGMENTS * SEGMENT;
constexpr size_t LINES = SEGMENT / 4, LINE_BYTES = 4 * CHANNELS, TILE_ROWS = 16;

static inline size_t ratio_up(size_t size, size_t part) { return (size + part - 1) / part; }

static inline size_t segments_of(size_t k) { return ratio_up(k, SEGMENT); }

static inline size_t code_bytes(const bl_format& format) { return LINE_BYTES * format.bits; }  // of a segment

// Groups of consecutive segments.
static inline size_t groups_of(const bl_format& format, size_t segments) {
    return format.group ? ratio_up(segments * SEGMENT, format.group) : 1;
}

static inline size_t scale_size(int scales) { return scales == BL_F32 ? 4 : scales == BL_F16 ? 2 : 1; }

// Of 16 channels: scales, or minimums.
static inline size_t scale_bytes(const bl_format& format, size_t groups) {
    const size_t halves = format.scales == BL_TWO_LEVEL ? 2 : 0;
    return CHANNELS * (groups * scale_size(format.scales) + halves);
}

static inline size_t zero_bytes(const bl_format& format, size_t groups) {
    if (format.zeros == BL_MIDDLE) return 0;
    return format.zeros == BL_INTEGER ? CHANNELS * groups : scale_bytes(format, groups);
}

static inline size_t header_bytes(const bl_format& format) {
    return format.group ? 0 : scale_bytes(format, 1) + zero_bytes(format, 1);
}

static inline size_t unit_bytes(const bl_format& format, size_t segments) {
    const size_t groups = groups_of(format, segments), codes = segments * code_bytes(format);
    return codes + (format.group ? scale_bytes(format, groups) + zero_bytes(format, groups) : 0);
}

static inline size_t record_bytes(const bl_format& format, size_t k) {
    const size_t segments = segments_of(k), rest = segments % UNIT_SEGMENTS;
    const size_t units = segments / UNIT_SEGMENTS * unit_bytes(format, UNIT_SEGMENTS);
    const size_t last = rest ? unit_bytes(format, rest) : 0;
    return ratio_up(header_bytes(format) + units + last, 64) * 64;
}

// Segment >> shift is its group, where a group has no less than a segment.
static inline int shift_of(const bl_format& format) {
    return format.group == 0 ? 31 : format.group == 128 ? 2 : format.group == 64 ? 1 : 0;
}

// What a code of 0 stands for is -middle, but for BL_INTEGER, whose groups have zeros of their own.
static inline int middle_of(const bl_format& format) {
    return format.table == BL_E2M1 ? 12 : format.zeros == BL_MINIMUM ? 0 : 1 << (format.bits - 1);
}

}  // namespace braid

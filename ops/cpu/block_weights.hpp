// Unpacking of weights, for vectors V (block_products.hpp).
#pragma once

#include "vector_common.hpp"

namespace braid {
namespace {

constexpr size_t SEGMENT_BYTES = LINES * LINE_BYTES;  // with a byte for each code

// A unit as the products read it: a byte or a word for each code, scales and minimums as float32, zeros as int32.
struct Unit {
    alignas(64) uint8_t codes[UNIT_SEGMENTS * 2 * SEGMENT_BYTES];
    alignas(64) float scales[2 * UNIT_SEGMENTS * CHANNELS];
    alignas(64) float minimums[2 * UNIT_SEGMENTS * CHANNELS];
    alignas(64) int32_t zeros[2 * UNIT_SEGMENTS * CHANNELS];
};

// Codes of 2 bits, moved up by `up`; added to what is there where that is not 0.
template <class V, int UP>
inline void unpack_upper(const uint8_t* at, uint8_t* out) {
    for (size_t i = 0; i < 2; i++)
        for (size_t lane = 0; lane < LINE_BYTES; lane += V::BYTES) {
            const typename V::Int four = V::bytes(at + LINE_BYTES * i + lane);
            const typename V::Int lines[4] = {
                V::template bits<UP, 3 << UP>(four), V::template bits<UP - 2, 3 << UP>(four),
                V::template bits<UP - 4, 3 << UP>(four), V::template bits<UP - 6, 3 << UP>(four)};
#pragma GCC unroll 4
            for (size_t q = 0; q < 4; q++) {
                uint8_t* to = out + LINE_BYTES * (4 * i + q) + lane;
                V::put_bytes(to, UP ? V::either(lines[q], V::bytes(to)) : lines[q]);
            }
        }
}

template <class V>
inline void unpack_lower(const uint8_t* at, uint8_t* out) {
    for (size_t i = 0; i < 4; i++)
        for (size_t lane = 0; lane < LINE_BYTES; lane += V::BYTES) {
            const typename V::Int two = V::bytes(at + LINE_BYTES * i + lane);
            V::put_bytes(out + LINE_BYTES * 2 * i + lane, V::template bits<0, 15>(two));
            V::put_bytes(out + LINE_BYTES * (2 * i + 1) + lane, V::template bits<-4, 15>(two));
        }
}

// Twice the numbers of E2M1, plus 12.
template <class V>
inline void look_up(uint8_t* codes) {
    alignas(16) static constexpr uint8_t NUMBERS_OF_E2M1[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                                12, 11, 10, 9,  8,  6,  4,  0};
    for (size_t i = 0; i < SEGMENT_BYTES; i += V::BYTES)
        V::put_bytes(codes + i, V::look_up(NUMBERS_OF_E2M1, V::bytes(codes + i)));
}

// Words around 0 of lines [begin, end) from bytes around `zeros` of the channels, or around `middle` where that is null:
// of each line first the even bytes, then the odd ones.
template <class V>
inline void widen(const uint8_t* bytes, size_t begin, size_t end, const int32_t* zeros, int middle, uint8_t* out) {
    for (size_t lane = 0; lane < LINE_BYTES; lane += V::BYTES) {
        const typename V::Int zero = zeros ? V::ints(zeros + lane / 4) : V::broadcast(middle);
        const typename V::Int less = V::times(zero, V::broadcast(0x10001));  // both words of a channel
        for (size_t i = begin; i < end; i++) {
            const typename V::Int line = V::bytes(bytes + LINE_BYTES * i + lane);
            uint8_t* to = out + 2 * LINE_BYTES * i + lane;
            V::put_bytes(to, V::subtract_words(V::even_bytes(line), less));
            V::put_bytes(to + LINE_BYTES, V::subtract_words(V::odd_bytes(line), less));
        }
    }
}

using Unpack = void (*)(const uint8_t* segment, uint8_t* codes);

template <class V, int BITS, int TABLE>
__attribute__((noinline)) void unpack_segment(const uint8_t* at, uint8_t* out) {
    if (BITS == 4 || BITS == 6) unpack_lower<V>(at, out);
    if (BITS == 2 || BITS == 6) unpack_upper<V, BITS == 6 ? 4 : 0>(at + (BITS == 6 ? 4 * LINE_BYTES : 0), out);
    if (TABLE == BL_E2M1) look_up<V>(out);
}

// null: a segment's codes are bytes as they are.
template <class V>
Unpack unpack_of(const bl_format& format) {
    if (format.table == BL_E2M1) return unpack_segment<V, 4, BL_E2M1>;
    if (format.bits == 2) return unpack_segment<V, 2, BL_LINEAR>;
    if (format.bits == 4) return unpack_segment<V, 4, BL_LINEAR>;
    return format.bits == 6 ? unpack_segment<V, 6, BL_LINEAR> : nullptr;
}

// Bits of 2^(exponent - 127), or of half of it, which is below the normal numbers for the first exponents.
inline float power(int exponent, bool is_half) {
    exponent -= is_half;
    const int32_t bits = exponent > 0 ? exponent << 23 : exponent == 0 ? 0x400000 : 0x200000;
    return read<float>(&bits);
}

// Scales, or minimums, of `groups` groups; halves of the scales of E2M1, whose codes are twice the numbers.
template <class V>
inline void unpack_scales(const bl_format& format, const uint8_t* at, size_t groups, float* out) {
    const size_t count = groups * CHANNELS;
    if (format.scales == BL_F32) std::memcpy(out, at, 4 * count);
    if (format.scales == BL_F16)
        for (size_t i = 0; i < count; i += V::LANES) V::store(out + i, V::from_halves(at + 2 * i));
    if (format.scales == BL_E8M0)
        for (size_t i = 0; i < count; i++) out[i] = power(at[i], format.table == BL_E2M1);
    else if (format.table == BL_E2M1)
        for (size_t i = 0; i < count; i++) out[i] *= 0.5f;
    if (format.scales != BL_TWO_LEVEL) return;
    for (size_t lane = 0; lane < CHANNELS; lane += V::LANES) {
        const typename V::Float upper = V::from_halves(at + count + 2 * lane);
        for (size_t i = lane; i < count; i += CHANNELS)
            V::store(out + i, V::multiply(V::to_float(V::from_int8(at + i)), upper));
    }
}

template <class V>
inline void unpack_groups(const bl_format& format, const uint8_t* at, size_t groups, Unit& unit) {
    unpack_scales<V>(format, at, groups, unit.scales);
    at += scale_bytes(format, groups);
    if (format.zeros == BL_MINIMUM) unpack_scales<V>(format, at, groups, unit.minimums);
    for (size_t i = 0; i < groups * CHANNELS && format.zeros == BL_INTEGER; i++) unit.zeros[i] = at[i];
}

}  // namespace
}  // namespace braid

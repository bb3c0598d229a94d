// Blocks of GGUF files: where their codes, scales and minimums are.  The layouts are those of ggml's types.
#include "gguf_blocks.h"

#include <cstring>

#include "block_layout.hpp"

namespace braid {
namespace {

using Lines = uint32_t[LINES];  // the codes of a segment, four in each

uint32_t word_at(const uint8_t* bytes, size_t word) {
    uint32_t value;
    std::memcpy(&value, bytes + 4 * word, 4);
    return value;
}

float half_at(const uint8_t* bytes) {
    uint16_t half;
    std::memcpy(&half, bytes, 2);
    const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    uint32_t bits = (exponent + 112) << 23 | fraction << 13;
    if (exponent == 31) bits = 0x7f800000 | fraction << 13;
    float value = float(fraction) * 0x1p-24f;  // of the small ones, which have no exponent
    if (exponent) std::memcpy(&value, &bits, 4);
    return half & 0x8000 ? -value : value;
}

bool is_finite(const uint8_t* half) { return (half[1] & 0x7c) != 0x7c; }

constexpr uint32_t NIBBLES = 0x0f0f0f0f, SIGNS = 0x80808080, SIXTEENS = 0x10101010;

// Four bits of a word as the fifth bits of four codes.
uint32_t fifth_bits(uint32_t four) { return (four & 15) * 0x00204081 << 4 & SIXTEENS; }

// Codes of 16 bytes: their lower nibbles, then their upper ones.
void two_halves(const uint8_t* bytes, Lines& lines) {
    for (size_t i = 0; i < 4; i++) {
        lines[i] = word_at(bytes, i) & NIBBLES;
        lines[i + 4] = word_at(bytes, i) >> 4 & NIBBLES;
    }
}

// Segment `s` of codes whose pairs of segments are the lower and the upper nibbles of 32 bytes.
void one_half(const uint8_t* bytes, size_t s, Lines& lines) {
    for (size_t i = 0; i < LINES; i++) lines[i] = word_at(bytes + s / 2 * 32, i) >> s % 2 * 4 & NIBBLES;
}

void add_fifth_bits(const uint8_t* bits, Lines& lines) {
    const uint32_t all = word_at(bits, 0);
    for (size_t i = 0; i < LINES; i++) lines[i] |= fifth_bits(all >> 4 * i);
}

// The lines of segment `s` of a block.
void q4_0(const uint8_t* block, size_t, Lines& lines) { two_halves(block + 2, lines); }
void q4_1(const uint8_t* block, size_t, Lines& lines) { two_halves(block + 4, lines); }

void q5_0(const uint8_t* block, size_t, Lines& lines) {
    two_halves(block + 6, lines);
    add_fifth_bits(block + 2, lines);
    for (uint32_t& line : lines) line += SIXTEENS;  // their zero is 16, that of six bits is 32
}

void q5_1(const uint8_t* block, size_t, Lines& lines) {
    two_halves(block + 8, lines);
    add_fifth_bits(block + 4, lines);
}

void q8_0(const uint8_t* block, size_t, Lines& lines) {
    for (size_t i = 0; i < LINES; i++) lines[i] = word_at(block + 2, i) ^ SIGNS;
}

void q4_k(const uint8_t* block, size_t s, Lines& lines) { one_half(block + 16, s, lines); }

void q5_k(const uint8_t* block, size_t s, Lines& lines) {
    one_half(block + 48, s, lines);
    for (size_t i = 0; i < LINES; i++) lines[i] |= (word_at(block + 16, i) >> s & 0x01010101) << 4;
}

// Half a block is 128 codes: 64 bytes of nibbles, lower ones first, and 32 bytes with two more bits of four.
void q6_k(const uint8_t* block, size_t s, Lines& lines) {
    const size_t half = s / 4, quarter = s % 4;
    const uint8_t *low = block + 64 * half + 32 * (quarter % 2), *high = block + 128 + 32 * half;
    for (size_t i = 0; i < LINES; i++)
        lines[i] = (word_at(low, i) >> quarter / 2 * 4 & NIBBLES) |
                   (word_at(high, i) >> 2 * quarter & 0x03030303) << 4;
}

struct Numbers {
    int8_t scale, minimum;
};

// Six bits each, of group g of eight: the first four whole, of the others the upper two bits beside those.
Numbers k_numbers(const uint8_t* twelve, size_t g) {
    const uint8_t *scales = twelve, *minimums = twelve + 4, *rest = twelve + 8;
    if (g < 4) return {int8_t(scales[g] & 63), int8_t(minimums[g] & 63)};
    return {int8_t((rest[g - 4] & 15) | scales[g - 4] >> 6 << 4),
            int8_t(rest[g - 4] >> 4 | minimums[g - 4] >> 6 << 4)};
}

Numbers scaled_k(const uint8_t* block, size_t g) { return k_numbers(block + 4, g); }
Numbers scaled_q6_k(const uint8_t* block, size_t g) { return {int8_t(block[192 + g]), 0}; }

struct Type {
    int number;
    size_t weights, bytes;
    bl_format format;
    void (*lines)(const uint8_t* block, size_t segment, Lines& lines);
    size_t scale;                                       // where the float16 of a block is
    Numbers (*numbers)(const uint8_t* block, size_t group);  // of two levels: the integers

    bool has_minimum() const { return format.zeros == BL_MINIMUM; }
    size_t segments() const { return weights / SEGMENT; }
    // The float16 of the minimums, which follows that of the scales; K types subtract it.
    uint16_t minimum(const uint8_t* block) const {
        uint16_t half;
        std::memcpy(&half, block + scale + 2, 2);
        return numbers ? half ^ 0x8000 : half;
    }
};

constexpr bl_format single(int bits, int zeros) { return {bits, 32, BL_F16, zeros, BL_LINEAR}; }
constexpr bl_format two_level(int bits, int group, int zeros) {
    return {bits, group, BL_TWO_LEVEL, zeros, BL_LINEAR};
}

const Type TYPES[] = {
    {BL_Q4_0, 32, 18, single(4, BL_MIDDLE), q4_0, 0, nullptr},
    {BL_Q4_1, 32, 20, single(4, BL_MINIMUM), q4_1, 0, nullptr},
    {BL_Q5_0, 32, 22, single(6, BL_MIDDLE), q5_0, 0, nullptr},
    {BL_Q5_1, 32, 24, single(6, BL_MINIMUM), q5_1, 0, nullptr},
    {BL_Q8_0, 32, 34, single(8, BL_MIDDLE), q8_0, 0, nullptr},
    {BL_Q4_K, 256, 144, two_level(4, 32, BL_MINIMUM), q4_k, 0, scaled_k},
    {BL_Q5_K, 256, 176, two_level(6, 32, BL_MINIMUM), q5_k, 0, scaled_k},
    {BL_Q6_K, 256, 210, two_level(6, 16, BL_MIDDLE), q6_k, 208, scaled_q6_k},
};

const Type* find(int number) {
    for (const Type& type : TYPES)
        if (type.number == number) return &type;
    return nullptr;
}

// The lines of a channel's segment, where the layout has them.
void write_lines(int bits, const Lines& lines, uint8_t* out) {
    const auto put = [&](size_t line, uint32_t four) { std::memcpy(out + LINE_BYTES * line, &four, 4); };
    if (bits == 8) {
        for (size_t i = 0; i < LINES; i++) put(i, lines[i]);
        return;
    }
    for (size_t i = 0; i < 4; i++) put(i, (lines[2 * i] & NIBBLES) | (lines[2 * i + 1] & NIBBLES) << 4);
    const auto upper = [&](size_t i) { return lines[i] >> 4 & 0x03030303; };
    for (size_t i = 0; i < 2 && bits == 6; i++)
        put(4 + i, upper(4 * i) | upper(4 * i + 1) << 2 | upper(4 * i + 2) << 4 | upper(4 * i + 3) << 6);
}

// The scales and minimums of a channel in a unit of `groups` groups, whose first block is `block`.
void write_scales(const Type& type, const uint8_t* block, size_t groups, size_t lane, uint8_t* out) {
    uint8_t* minimums = out + scale_bytes(type.format, groups);
    if (!type.numbers) {
        for (size_t g = 0; g < groups; g++, block += type.bytes) {
            std::memcpy(out + 2 * (CHANNELS * g + lane), block + type.scale, 2);
            if (type.has_minimum()) std::memcpy(minimums + 2 * (CHANNELS * g + lane), block + type.scale + 2, 2);
        }
        return;
    }
    for (size_t g = 0; g < groups; g++) {
        const Numbers both = type.numbers(block, g);
        out[CHANNELS * g + lane] = uint8_t(both.scale);
        if (type.has_minimum()) minimums[CHANNELS * g + lane] = uint8_t(both.minimum);
    }
    std::memcpy(out + CHANNELS * groups + 2 * lane, block + type.scale, 2);
    const uint16_t minimum = type.minimum(block);
    if (type.has_minimum()) std::memcpy(minimums + CHANNELS * groups + 2 * lane, &minimum, 2);
}

// A unit of a channel: `count` segments from `first` on of the row.
void pack_unit(const Type& type, const uint8_t* row, size_t first, size_t count, size_t lane, uint8_t* out) {
    const size_t in_block = type.segments();
    for (size_t s = 0; s < count; s++) {
        Lines lines;
        type.lines(row + (first + s) / in_block * type.bytes, (first + s) % in_block, lines);
        write_lines(type.format.bits, lines, out + s * code_bytes(type.format) + 4 * lane);
    }
    write_scales(type, row + first / in_block * type.bytes, groups_of(type.format, count), lane,
                 out + count * code_bytes(type.format));
}

void pack_block(const Type& type, size_t count, size_t k, const void* const* rows, uint8_t* record) {
    const size_t segments = segments_of(k);
    for (size_t first = 0; first < segments; first += UNIT_SEGMENTS) {
        const size_t some = segments - first < UNIT_SEGMENTS ? segments - first : UNIT_SEGMENTS;
        for (size_t lane = 0; lane < count; lane++)
            pack_unit(type, static_cast<const uint8_t*>(rows[lane]), first, some, lane, record);
        record += unit_bytes(type.format, some);
    }
}

// The weights of half a segment, which share a scale; `at` is the first one's place in its block.
void unpack_half(const Type& type, const uint8_t* block, size_t at, const Lines& lines, float* weights) {
    float scale = half_at(block + type.scale);
    float minimum = type.has_minimum() ? half_at(block + type.scale + 2) : 0;
    if (type.numbers) {
        const Numbers both = type.numbers(block, at / type.format.group);
        scale *= both.scale;
        minimum *= -both.minimum;
    }
    const size_t first = at % SEGMENT;
    for (size_t i = 0; i < SEGMENT / 2; i++) {
        const int code = int(lines[(first + i) / 4] >> i % 4 * 8 & 255) - middle_of(type.format);
        weights[i] = scale * float(code) + minimum;
    }
}

}  // namespace
}  // namespace braid

extern "C" {

using namespace braid;

int bl_gguf_format(int type, bl_format* format) {
    const Type* found = find(type);
    if (found) *format = found->format;
    return found != nullptr;
}

size_t bl_gguf_row_bytes(int type, size_t k) {
    const Type* found = find(type);
    return found && k % found->weights == 0 ? k / found->weights * found->bytes : 0;
}

void bl_gguf_pack(int type, size_t n, size_t k, const void* const* rows, size_t begin, size_t end,
                  void* packed) {
    const Type& found = *find(type);
    const size_t size = record_bytes(found.format, k);
    for (size_t block = begin; block < end; block++) {
        uint8_t* record = static_cast<uint8_t*>(packed) + block * size;
        const size_t first = block * CHANNELS, count = n - first < CHANNELS ? n - first : CHANNELS;
        const size_t written = count < CHANNELS ? 0 : size - 64;  // the rest may have padding
        std::memset(record + written, 0, size - written);
        pack_block(found, count, k, rows + first, record);
    }
}

int bl_gguf_is_finite(int type, size_t k, const void* blocks) {
    const Type& found = *find(type);
    const uint8_t* block = static_cast<const uint8_t*>(blocks);
    bool is = true;
    for (size_t i = 0; i < k; i += found.weights, block += found.bytes) {
        is &= is_finite(block + found.scale);
        if (found.has_minimum()) is &= is_finite(block + found.scale + 2);
    }
    return is;
}

void bl_gguf_unpack(int type, size_t k, const void* row, float* weights) {
    const Type& found = *find(type);
    const uint8_t* block = static_cast<const uint8_t*>(row);
    for (size_t i = 0; i < k; i += SEGMENT) {
        const uint8_t* at = block + i / found.weights * found.bytes;
        Lines lines;
        found.lines(at, i % found.weights / SEGMENT, lines);
        for (size_t j = 0; j < SEGMENT; j += SEGMENT / 2)
            unpack_half(found, at, i % found.weights + j, lines, weights + i + j);
    }
}
}

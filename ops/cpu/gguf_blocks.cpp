// The interface of blocks of GGUF files, the choice of an instruction set for packing them, and rows as floats.
#include "gguf_blocks.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include "gguf_types.hpp"

namespace braid {

void pack_record_avx512(int type, size_t count, size_t k, const void* const* rows, uint8_t* record);
void pack_record_avx2(int type, size_t count, size_t k, const void* const* rows, uint8_t* record);

namespace {

void pack_record(const Type& type, size_t count, size_t k, const void* const* rows, uint8_t* record) {
    const bool is_wide = !std::strcmp(bl_isa(), "avx512vnni");
    (is_wide ? pack_record_avx512 : pack_record_avx2)(type.number, count, k, rows, record);
}

}  // namespace
}  // namespace braid

#else
#include "gguf_pack.hpp"
#endif

namespace braid {
namespace {

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

// A block of one row.
struct RowFrom {
    using Words = uint32_t;

    const uint8_t* block;

    uint32_t word(size_t at) const {
        uint32_t value;
        std::memcpy(&value, block + at, 4);
        return value;
    }

    void read(size_t at, uint32_t (&words)[4]) const { std::memcpy(words, block + at, 16); }
};

constexpr int NUMBERS_OF_E2M1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // twice

// What the codes of half a segment mean, which share a scale.
struct Meaning {
    float scale, minimum;
    int middle;
    bool is_e2m1;

    // `at`: the place of the first code in its block.
    Meaning(const Type& type, const RowFrom& from, const Numbers<RowFrom>& numbers, size_t at)
        : scale(0), minimum(0), middle(middle_of(type.format)), is_e2m1(type.format.table == BL_E2M1) {
        const uint8_t* own = from.block + type.scale;
        scale = is_e2m1 ? std::ldexp(1.0f, *own - 128) : half_at(own);
        if (type.has_minimum()) minimum = half_at(own + 2);
        if (!type.has_two_levels()) return;
        const size_t group = at / type.format.group;
        const auto of = [&](const uint32_t* words) { return float(int8_t(words[group / 4] >> group % 4 * 8)); };
        scale *= of(numbers.scales);
        minimum *= -of(numbers.minimums);
    }

    float of(int code) const {
        return scale * float(is_e2m1 ? NUMBERS_OF_E2M1[code & 15] : code - middle) + minimum;
    }
};

void unpack_segment(const Type& type, const RowFrom& from, size_t segment, float* weights) {
    const Reading<RowFrom> reading = reading_of<RowFrom>(type.number);
    Lines<RowFrom> lines;
    Numbers<RowFrom> numbers{};
    reading.lines(from, segment, lines);
    if (reading.numbers) reading.numbers(from, numbers);
    for (size_t first = 0; first < SEGMENT; first += SEGMENT / 2) {
        const Meaning meaning(type, from, numbers, segment * SEGMENT + first);
        for (size_t i = first; i < first + SEGMENT / 2; i++)
            weights[i] = meaning.of(int(lines[i / 4] >> i % 4 * 8 & 255));
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
        std::memset(record + size - 64, 0, 64);  // there may be padding
        pack_record(found, count, k, rows + first, record);
    }
}

int bl_gguf_is_finite(int type, size_t k, const void* blocks) {
    const Type& found = *find(type);
    const uint8_t* block = static_cast<const uint8_t*>(blocks);
    if (found.format.scales == BL_E8M0) return true;  // an exponent is always a number
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
    for (size_t i = 0; i < k; i += SEGMENT)
        unpack_segment(found, {block + i / found.weights * found.bytes}, i % found.weights / SEGMENT, weights + i);
}
}

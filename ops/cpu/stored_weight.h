// A weight as files of OpenVINO and ONNX hold it, and how it is packed for the kernels without losing anything.
//
// weight[n][k] = (code - zero) * scale of its group.  The kernels read fewer bytes where numbers of a file are
// wider than what they hold: float32 scales that are a float16, or an int8 times a float16 for 256 weights (the
// K types of GGUF); zero points that are the quotient of such a minimum and its scale; and 8-bit codes of six
// bits (Q6_K).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "block_linear.h"

namespace braid {

// The bits of the float16 that is nearest to a float, for what lies between the least and the largest of them.
inline uint16_t nearest_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint16_t sign = bits >> 16 & 0x8000;
    const float size = std::fabs(value);
    if (size < 0x1p-14f) return sign | uint16_t(std::lrint(size * 0x1p24f));  // units of the smallest one
    if (size >= 65520.0f) return sign | 0x7c00;
    const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
    return sign | uint16_t((rounded - (112u << 23)) >> 13);
}

inline float half_value(uint16_t half) {
    const uint32_t size = half & 0x7fff, bits = (size << 13) + (112u << 23);
    float value = size * 0x1p-24f;  // of the small ones, which have no exponent
    if (size >= 0x400) std::memcpy(&value, &bits, 4);
    return half & 0x8000 ? -value : value;
}

// Whether a number is a half but for the rounding of a quotient and a product.
inline bool is_half(float value) {
    return std::fabs(value) < 65520.0f &&
           std::fabs(half_value(nearest_half(value)) - value) <= 0x1p-22f * std::fabs(value);
}

// Writes numbers as an int8 each times a half for all of them; false where they are no such products.  The
// largest of them is tried as 63, 128 and 127 times the half first, as quantizers choose it.
inline bool split(const float* values, size_t count, int8_t* wholes, uint16_t* half) {
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        if (std::fabs(values[i]) > std::fabs(largest)) largest = values[i];
    std::memset(wholes, 0, count);
    *half = 0;
    for (int turn = 0; turn < 130 && largest != 0; turn++) {
        const int whole = turn == 0 ? 63 : turn == 1 ? -128 : 129 - turn;
        const float unit = half_value(*half = nearest_half(largest / whole));
        bool fits = unit != 0 && is_half(largest / whole);
        for (size_t i = 0; i < count && fits; i++) {
            const float size = values[i] / unit;
            if (!(fits = std::fabs(size) < 128.5f)) break;
            const long nearest = std::lrint(size);
            fits = nearest < 128 && std::fabs(nearest * unit - values[i]) <= 0x1p-22f * std::fabs(values[i]);
            wholes[i] = int8_t(nearest);
        }
        if (fits) return true;
    }
    return largest == 0;
}

enum class Zeros { MIDDLE, INTEGERS, FLOATS };

struct StoredWeight {
    size_t n, k, group;  // group: k where a row has one scale
    int bits;            // 2, 4 or 8
    bool is_signed;      // codes are of two's complement, and MIDDLE is 0
    bool half_scales;    // float16 instead of float32
    Zeros zeros;         // INTEGERS: as the codes; FLOATS: float32, with scales of float32
    const uint8_t* codes = nullptr;
    const void* scales = nullptr;
    const void* zero_points = nullptr;
    int table = BL_LINEAR;

    size_t groups() const { return k / group; }

    // What the kernels are given if nothing can be left out.
    bl_format widest() const {
        const int kind = zeros == Zeros::FLOATS ? BL_MINIMUM : zeros == Zeros::INTEGERS ? BL_INTEGER : BL_MIDDLE;
        return {bits, group == k ? 0 : int32_t(group), half_scales ? BL_F16 : BL_F32, kind, table};
    }

    // What holds for all numbers of a weight, so that nothing is lost by writing them narrower.
    struct Narrow {
        std::atomic<bool> halves{true}, products{true}, six_bits{true}, powers{true};
    };

    // The narrowest format without loss.
    bl_format narrowed(const Narrow& is) const {
        bl_format format = widest();
        if (is.halves) format.scales = BL_F16;
        if (is.products) format.scales = BL_TWO_LEVEL;
        if (is.powers) format.scales = BL_E8M0;
        if (is.six_bits) format.bits = 6;
        return bl_check(&format, n, k) ? widest() : format;
    }

    // Clears what does not hold for channels [begin, end).
    void examine(size_t begin, size_t end, Narrow& is) const {
        if (is.six_bits && !has_six_bits(begin, end)) is.six_bits = false;
        if (is.halves && !has_halves(begin * groups(), end * groups())) is.halves = false;
        if (is.products && !has_products(begin, end)) is.products = false;
        if (is.powers && !has_powers(begin * groups(), end * groups())) is.powers = false;
    }

    // Packs blocks [begin, end) of 16 channels as `format`, which is `widest` or has fewer bits.
    void pack(const bl_format& format, size_t begin, size_t end, void* packed) const {
        const size_t block_bytes = bl_packed_bytes(&format, 16, k);
        std::vector<uint8_t> own_codes(16 * k), own_scales(64 * groups()), own_zeros(64 * groups());
        for (size_t block = begin; block < end; block++) {
            const size_t first = 16 * block, count = std::min<size_t>(16, n - first);
            write_codes(format, first, count, own_codes.data());
            write_scales(format, first, count, own_scales.data());
            write_zeros(format, first, count, own_zeros.data());
            bl_pack(&format, count, k, own_codes.data(), own_scales.data(), own_zeros.data(), 0, 1,
                    static_cast<uint8_t*>(packed) + block * block_bytes);
        }
    }

private:
    const float* floats(const void* values) const { return static_cast<const float*>(values); }
    float minimum(size_t at) const { return -floats(zero_points)[at] * floats(scales)[at]; }
    size_t row_bytes() const { return k * bits / 8; }
    uint8_t flipped() const { return !is_signed ? 0 : bits == 4 ? 0x88 : 0x80; }  // signed codes to unsigned

    bool has_six_bits(size_t begin, size_t end) const {
        if (bits != 8 || group != 16 || zeros != Zeros::MIDDLE) return false;
        const uint8_t* code = codes + begin * row_bytes();
        uint8_t outside = 0;
        for (size_t i = 0; i < (end - begin) * row_bytes(); i++)
            outside |= uint8_t((code[i] ^ flipped()) - 96) & 0xc0;
        return !outside;
    }

    bool has_halves(size_t begin, size_t end) const {
        for (size_t i = begin; i < end && !half_scales; i++) {
            const float scale = floats(scales)[i];
            if (std::fabs(scale) >= 65520.0f || half_value(nearest_half(scale)) != scale) return false;
            if (zeros == Zeros::FLOATS && !is_half(minimum(i))) return false;
        }
        return true;
    }

    // Whether the scales are powers of two, as those of MXFP4 are.
    bool has_powers(size_t begin, size_t end) const {
        if (table != BL_E2M1 || half_scales) return false;
        for (size_t i = begin; i < end; i++)
            if (bits_of(i) & 0x807fffff || !bits_of(i) || bits_of(i) == 0x7f800000) return false;
        return true;
    }

    uint32_t bits_of(size_t scale) const {
        uint32_t bits;
        std::memcpy(&bits, floats(scales) + scale, 4);
        return bits;
    }

    bool has_products(size_t begin, size_t end) const {
        if (half_scales || k % 256 || group > 32 || table != BL_LINEAR) return false;
        int8_t wholes[16];
        uint16_t half;
        const size_t count = 256 / group;
        for (size_t at = begin * groups(); at < end * groups(); at += count) {
            if (!split(floats(scales) + at, count, wholes, &half)) return false;
            if (zeros == Zeros::FLOATS && !split(minima(at, count).data(), count, wholes, &half)) return false;
        }
        return true;
    }

    std::array<float, 16> minima(size_t begin, size_t count) const {
        std::array<float, 16> found;
        for (size_t i = 0; i < count; i++) found[i] = minimum(begin + i);
        return found;
    }

    // int8 [count][groups], then float16 [count][k / 256].
    void write_products(size_t first, size_t count, bool of_minima, uint8_t* out) const {
        const size_t size = 256 / group;
        for (size_t part = 0; part < count * groups() / size; part++) {
            const size_t at = first * groups() + part * size;
            uint16_t half;
            split(of_minima ? minima(at, size).data() : floats(scales) + at, size,
                  reinterpret_cast<int8_t*>(out) + part * size, &half);
            std::memcpy(out + count * groups() + 2 * part, &half, 2);
        }
    }

    void write_codes(const bl_format& format, size_t first, size_t count, uint8_t* out) const {
        const uint8_t* code = codes + first * row_bytes();
        const uint8_t less = format.bits == 6 ? 96 : 0, flip = flipped();
        for (size_t i = 0; i < count * row_bytes(); i++) out[i] = uint8_t((code[i] ^ flip) - less);
    }

    void write_scales(const bl_format& format, size_t first, size_t count, uint8_t* out) const {
        const size_t begin = first * groups(), size = count * groups(), width = half_scales ? 2 : 4;
        if (format.scales == BL_TWO_LEVEL)
            write_products(first, count, false, out);
        else if (format.scales == BL_E8M0)
            for (size_t i = 0; i < size; i++) out[i] = uint8_t(bits_of(begin + i) >> 23);
        else if (half_scales || format.scales == BL_F32)
            std::memcpy(out, static_cast<const char*>(scales) + begin * width, size * width);
        else
            for (size_t i = 0; i < size; i++) put_half(out, i, floats(scales)[begin + i]);
    }

    void write_zeros(const bl_format& format, size_t first, size_t count, uint8_t* out) const {
        const size_t begin = first * groups(), size = count * groups();
        if (zeros == Zeros::FLOATS && format.scales == BL_TWO_LEVEL) return write_products(first, count, true, out);
        for (size_t i = 0; i < size && zeros == Zeros::FLOATS; i++) {
            const float least = minimum(begin + i);
            format.scales == BL_F16 ? put_half(out, i, least) : void(std::memcpy(out + 4 * i, &least, 4));
        }
        const uint8_t mask = uint8_t((1 << bits) - 1), *at = static_cast<const uint8_t*>(zero_points);
        for (size_t i = 0; i < size && zeros == Zeros::INTEGERS; i++) {
            const size_t bit = (begin + i) * size_t(bits);
            out[i] = (at[bit / 8] >> bit % 8 & mask) ^ (flipped() & mask);
        }
    }

    static void put_half(uint8_t* out, size_t at, float value) {
        const uint16_t half = nearest_half(value);
        std::memcpy(out + 2 * at, &half, 2);
    }
};

}  // namespace braid

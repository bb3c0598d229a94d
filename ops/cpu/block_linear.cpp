// Checks, packing, and the choice of an instruction set.
#include "block_linear.h"

#include <cstring>
#include <vector>

#include "block_kernels.hpp"
#include "block_layout.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace braid {
namespace {

#if defined(__x86_64__)

struct Cpuid {
    unsigned a = 0, b = 0, c = 0, d = 0;
    Cpuid(unsigned leaf, unsigned part) { __get_cpuid_count(leaf, part, &a, &b, &c, &d); }
};

bool has_bits(unsigned value, unsigned bits) { return (value & bits) == bits; }

// The registers that the system saves.
unsigned saved_registers() {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

// By cpuid itself, since __builtin_cpu_supports is always 0 in programs of some compilers.
bool runs(const char* name) {
    constexpr unsigned FMA = 1u << 12, OSXSAVE = 1u << 27, F16C = 1u << 29, AVX2 = 1u << 5;
    constexpr unsigned AVX512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
    constexpr unsigned AVX512_VNNI = 1u << 11, AVX_VNNI = 1u << 4, YMM = 6, ZMM = 0xe6;
    if (!has_bits(Cpuid(1, 0).c, FMA | OSXSAVE | F16C)) return false;
    const Cpuid seven(7, 0);
    if (!has_bits(seven.b, AVX2) || !has_bits(saved_registers(), YMM)) return false;
    if (!std::strcmp(name, "avx2")) return true;
    if (!std::strcmp(name, "avxvnni")) return has_bits(Cpuid(7, 1).a, AVX_VNNI);
    return has_bits(seven.b, AVX512) && has_bits(seven.c, AVX512_VNNI) && has_bits(saved_registers(), ZMM);
}

constexpr const Kernels* ALL[] = {&AVX512VNNI_KERNELS, &AVXVNNI_KERNELS, &AVX2_KERNELS};

#elif defined(__aarch64__) && defined(__linux__)

bool runs(const char*) {
    constexpr unsigned long DOT_PRODUCTS = 1ul << 20;
    return getauxval(AT_HWCAP) & DOT_PRODUCTS;
}

constexpr const Kernels* ALL[] = {&NEON_KERNELS};

#else

bool runs(const char*) { return false; }

constexpr const Kernels* ALL[] = {nullptr};

#endif

const Kernels* find(const char* name) {
    for (const Kernels* kernels : ALL)
        if (kernels && (!name || !std::strcmp(kernels->name, name)) && runs(kernels->name)) return kernels;
    return nullptr;
}

const Kernels* in_use = find(nullptr);

size_t codes_in_byte(const bl_format& format) { return format.bits == 4 ? 2 : format.bits == 2 ? 4 : 1; }

// The weight as its file has it.
struct Source {
    const bl_format& format;
    size_t n, k;
    const uint8_t *codes, *scales, *zeros;

    size_t groups() const { return format.group ? k / format.group : 1; }

    // The codes of a segment, a byte each; those beyond k are 0.
    void read(size_t channel, size_t segment, uint8_t (&out)[SEGMENT]) const {
        const size_t in_byte = codes_in_byte(format), first = segment * SEGMENT;
        const size_t count = k - first < SEGMENT ? k - first : SEGMENT;
        const uint8_t* from = codes + (channel * k + first) / in_byte;
        std::memset(out, 0, SEGMENT);
        if (in_byte == 1) std::memcpy(out, from, count);
        const int bits = format.bits, mask = (1 << bits) - 1;
        if (bits == 4 && count == SEGMENT)  // without a division for each code it is ten times as fast
            for (size_t i = 0; i < SEGMENT / 2; i++) {
                out[2 * i] = from[i] & 15;
                out[2 * i + 1] = from[i] >> 4;
            }
        else if (in_byte > 1)
            for (size_t i = 0; i < count; i++) out[i] = from[i / in_byte] >> i % in_byte * bits & mask;
    }
};

// The lines of a channel's codes, in groups of 8 bits.
void write_codes(int bits, const uint8_t (&codes)[SEGMENT], uint8_t* out) {
    uint32_t lines[LINES];
    std::memcpy(lines, codes, SEGMENT);
    const auto put = [&](size_t line, uint32_t four) { std::memcpy(out + LINE_BYTES * line, &four, 4); };
    for (size_t i = 0; i < 8 && bits == 8; i++) put(i, lines[i]);
    const uint32_t lower = bits == 6 ? 0x0f0f0f0f : ~0u;
    for (size_t i = 0; i < 4 && (bits == 4 || bits == 6); i++)
        put(i, (lines[2 * i] & lower) | (lines[2 * i + 1] & lower) << 4);
    const int down = bits == 6 ? 4 : 0;
    const auto upper = [&](size_t i) { return lines[i] >> down & 0x03030303; };
    for (size_t i = 0; i < 2 && (bits == 2 || bits == 6); i++)
        put((bits == 6 ? 4 : 0) + i,
            upper(4 * i) | upper(4 * i + 1) << 2 | upper(4 * i + 2) << 4 | upper(4 * i + 3) << 6);
}

// Scales, or minimums, of groups [first, first + count) of a channel; those beyond the last stay 0.
void write_scales(const Source& from, const uint8_t* given, size_t channel, size_t first, size_t count,
                  uint8_t* out) {
    const size_t size = scale_size(from.format.scales), groups = from.groups(), lane = channel % CHANNELS;
    for (size_t g = 0; g < count && first + g < groups; g++)
        std::memcpy(out + (CHANNELS * g + lane) * size, given + (channel * groups + first + g) * size, size);
    if (from.format.scales != BL_TWO_LEVEL) return;
    const size_t half = channel * (from.k / UNIT) + first * from.format.group / UNIT;
    std::memcpy(out + CHANNELS * count + 2 * lane, given + from.n * groups + 2 * half, 2);
}

void write_group_values(const Source& from, size_t channel, size_t first, size_t count, uint8_t* out) {
    write_scales(from, from.scales, channel, first, count, out);
    out += scale_bytes(from.format, count);
    if (from.format.zeros == BL_MINIMUM) write_scales(from, from.zeros, channel, first, count, out);
    if (from.format.zeros != BL_INTEGER) return;
    for (size_t g = 0; g < count && first + g < from.groups(); g++)
        out[CHANNELS * g + channel % CHANNELS] = from.zeros[channel * from.groups() + first + g];
}

// `count` segments of a channel, from `first` on: its part of a unit.
void pack_unit(const Source& from, size_t channel, size_t first, size_t count, uint8_t* unit) {
    const bl_format& format = from.format;
    uint8_t codes[SEGMENT];
    for (size_t s = 0; s < count; s++) {
        from.read(channel, first + s, codes);
        write_codes(format.bits, codes, unit + s * code_bytes(format) + 4 * (channel % CHANNELS));
    }
    if (format.group)
        write_group_values(from, channel, first * SEGMENT / format.group, groups_of(format, count),
                           unit + count * code_bytes(format));
}

// Unit by unit, so that what all channels write is in the cache.
void pack_record(const Source& from, size_t begin, size_t end, uint8_t* record) {
    const size_t segments = segments_of(from.k);
    for (size_t c = begin; c < end && !from.format.group; c++) write_group_values(from, c, 0, 1, record);
    record += header_bytes(from.format);
    for (size_t first = 0; first < segments; first += UNIT_SEGMENTS) {
        const size_t count = segments - first < UNIT_SEGMENTS ? segments - first : UNIT_SEGMENTS;
        for (size_t c = begin; c < end; c++) pack_unit(from, c, first, count, record);
        record += unit_bytes(from.format, count);
    }
}

// Activations that are rounded a tile at a time; each row takes as many bytes.
struct Rows {
    int levels, type;
    size_t k;
    const uint8_t* x;
    size_t stride;
    const int64_t* tokens;  // null: row r is row r of x

    // `count` rows from `first` on, of `all` that are multiplied together.
    void round(size_t first, size_t count, size_t all, uint8_t* rounded) const {
        const uint8_t* at[TILE_ROWS];
        for (size_t r = 0; r < count; r++)
            at[r] = x + (tokens ? tokens[first + r] : first + r) * stride * (type == BL_F32 ? 4 : 2);
        const size_t row_bytes = segments_of(k) * in_use->row_bytes[levels - 1];
        in_use->round[all > in_use->few_rows][levels - 1](type, count, k, at, rounded + first * row_bytes);
    }
};

// The products of a hidden layer, and what is between them: some rows and channels at a time, for the second cache.
struct Hidden {
    const bl_hidden& layer;
    int levels;
    size_t m, n, k;
    const uint8_t* rounded;

    void multiply(size_t begin, size_t end, float* y, size_t stride) const {
        static thread_local std::vector<float> memory;
        if (memory.size() < 2 * NUMBERS) memory.resize(2 * NUMBERS);
        float *const gates = layer.gate ? memory.data() : nullptr, *const ups = memory.data() + NUMBERS;
        const size_t together = m < TOGETHER ? m : TOGETHER, most = NUMBERS / CHANNELS / (together ? together : 1);
        for (size_t row = 0; row < m; row += together)
            for (size_t block = begin; block < end; block += most) {
                const size_t end_row = m - row < together ? m : row + together;
                const Part part{row, end_row, block, end - block < most ? end : block + most};
                if (gates) multiply_part(*layer.gate, layer.gate_bias, part, gates);
                multiply_part(*layer.up, layer.up_bias, part, ups);
                for (size_t r = 0; r < end_row - row; r++) {
                    const size_t at = r * part.width();
                    bl_activate(&layer.activation, count(part), gates ? gates + at : nullptr, ups + at,
                                y + (row + r) * stride + block * CHANNELS);
                }
            }
    }

private:
    static constexpr size_t TOGETHER = 256, NUMBERS = TOGETHER * 6 * CHANNELS;  // rows; numbers of each product

    struct Part {
        size_t row, end_row, block, end;

        size_t width() const { return (end - block) * CHANNELS; }
    };

    // Channels of a part, of which the last block may have fewer.
    size_t count(const Part& part) const {
        return (part.end * CHANNELS < n ? part.end * CHANNELS : n) - part.block * CHANNELS;
    }

    void multiply_part(const bl_weight& weight, const float* bias, const Part& part, float* to) const {
        const Product product{weight.format, levels, BL_F32, m, n, k, rounded,
                              static_cast<const uint8_t*>(weight.packed), reinterpret_cast<uint8_t*>(to),
                              part.width(), part.row, part.end_row, part.block};
        in_use->multiply(product, part.block, part.end);
        for (size_t r = 0; bias && r < part.end_row - part.row; r++)
            for (size_t i = 0; i < count(part); i++) to[r * part.width() + i] += bias[part.block * CHANNELS + i];
    }
};

// Rows that are routed to experts, and how their products are shared.
struct Routed {
    const bl_expert_rows* list;
    size_t count, row_bytes;
    const uint8_t* rounded;

    // Calls multiply(entry, its first row, begin, end) for the blocks [begin, end) of n channels that are part `part`.
    template <class Multiply>
    void share(size_t n, size_t part, size_t parts, const Multiply& multiply) const {
        const size_t blocks = ratio_up(n, CHANNELS);
        size_t all = 0, before = 0;
        for (size_t i = 0; i < count; i++) all += blocks * cost_of(list[i]);
        for (size_t i = 0; i < count; i++) {
            const size_t cost = cost_of(list[i]);
            const size_t begin = blocks_within(before, cost, blocks, all * part / parts);
            const size_t end = blocks_within(before, cost, blocks, all * (part + 1) / parts);
            before += blocks * cost;
            if (begin < end) multiply(list[i], rounded + list[i].begin * row_bytes, begin, end);
        }
    }

private:
    // The cost of a block of a list's entry, in rows: to read its weights takes as long as to multiply some rows.
    static size_t cost_of(const bl_expert_rows& rows) {
        constexpr size_t READING = 8;
        return rows.end > rows.begin ? READING + rows.end - rows.begin : 0;
    }

    // How many of an entry's blocks, which cost `cost` each after `before`, begin before `limit`.
    static size_t blocks_within(size_t before, size_t cost, size_t blocks, size_t limit) {
        if (limit <= before || !cost) return 0;
        const size_t within = ratio_up(limit - before, cost);
        return within < blocks ? within : blocks;
    }
};

// The hidden layer of an expert with n numbers.
bl_hidden of_expert(const bl_hidden& all, size_t expert, size_t n) {
    const auto bias_of = [&](const float* biases) { return biases ? biases + expert * n : nullptr; };
    return {all.activation, all.gate ? all.gate + expert : nullptr, all.up + expert, bias_of(all.gate_bias),
            bias_of(all.up_bias)};
}

const char* problem_of(const bl_format& format) {
    const int bits = format.bits, group = format.group;
    if (bits != 2 && bits != 4 && bits != 6 && bits != 8) return "codes have 2, 4, 6 or 8 bits";
    if (group && group != 16 && group != 32 && group != 64 && group != 128)
        return "groups have 16, 32, 64 or 128 weights, or all of a channel";
    if (format.scales != BL_F32 && format.scales != BL_F16 && format.scales != BL_E8M0 &&
        format.scales != BL_TWO_LEVEL)
        return "scales have no such type";
    if (format.zeros < BL_MIDDLE || format.zeros > BL_MINIMUM) return "no such zeros";
    if (format.table != BL_LINEAR && format.table != BL_E2M1) return "no such table";
    if (format.table == BL_E2M1 && (bits != 4 || format.zeros != BL_MIDDLE))
        return "E2M1 has 4 bits and no zeros";
    if (format.scales == BL_TWO_LEVEL && (!group || format.zeros == BL_INTEGER || format.table))
        return "scales of two levels need groups, and no integer zeros";
    if (format.scales == BL_E8M0 && format.zeros == BL_MINIMUM) return "minimums are no powers of two";
    return nullptr;
}

}  // namespace
}  // namespace braid

extern "C" {

using namespace braid;

const char* bl_isa(void) { return in_use ? in_use->name : "none"; }

int bl_set_isa(const char* name) {
    const Kernels* found = name ? find(name) : nullptr;
    if (found) in_use = found;
    return found != nullptr;
}

const char* bl_check(const bl_format* format, size_t n, size_t k) {
    constexpr size_t MOST = size_t(1) << 28;
    if (const char* problem = problem_of(*format)) return problem;
    if (!n || !k || n > MOST || k > MOST) return "n and k are from 1 to 2^28";
    if (format->group && k % format->group) return "k is not a multiple of the group";
    if (k % codes_in_byte(*format)) return "the codes of a channel are not whole bytes";
    if (format->scales == BL_TWO_LEVEL && k % UNIT) return "k is not a multiple of 256";
    return nullptr;
}

size_t bl_packed_bytes(const bl_format* format, size_t n, size_t k) {
    return ratio_up(n, CHANNELS) * record_bytes(*format, k);
}

void bl_pack(const bl_format* format, size_t n, size_t k, const void* codes, const void* scales,
             const void* zeros, size_t begin, size_t end, void* packed) {
    const Source from{*format,
                      n,
                      k,
                      static_cast<const uint8_t*>(codes),
                      static_cast<const uint8_t*>(scales),
                      static_cast<const uint8_t*>(zeros)};
    for (size_t block = begin; block < end; block++) {
        uint8_t* record = static_cast<uint8_t*>(packed) + block * record_bytes(*format, k);
        std::memset(record, 0, record_bytes(*format, k));
        const size_t first = block * CHANNELS;
        pack_record(from, first, n - first < CHANNELS ? n : first + CHANNELS, record);
    }
}

size_t bl_rounded_bytes(int levels, size_t m, size_t k) {
    return in_use ? m * segments_of(k) * in_use->row_bytes[levels - 1] : 0;
}

void bl_round(int levels, int type, size_t m, size_t k, const void* x, size_t stride, size_t begin, size_t end,
              void* rounded) {
    const Rows rows{levels, type, k, static_cast<const uint8_t*>(x), stride, nullptr};
    const size_t last = m < end * TILE_ROWS ? m : end * TILE_ROWS;
    for (size_t row = begin * TILE_ROWS; row < last; row += TILE_ROWS)
        rows.round(row, last - row < TILE_ROWS ? last - row : TILE_ROWS, m, static_cast<uint8_t*>(rounded));
}

void bl_multiply_floats(size_t m, size_t n, size_t k, const float* x, size_t stride, const float* weight, size_t begin,
                        size_t end, float* y) {
    in_use->multiply_floats({m, n, k, x, stride, weight, y}, begin * CHANNELS, end * CHANNELS);
}

void bl_multiply(const bl_format* format, int levels, int type, size_t m, size_t n, size_t k,
                 const void* rounded, const void* packed, size_t begin, size_t end, void* y, size_t stride) {
    const Product product{*format, levels, type, m, n, k, static_cast<const uint8_t*>(rounded),
                          static_cast<const uint8_t*>(packed), static_cast<uint8_t*>(y), stride, 0, m, 0};
    in_use->multiply(product, begin, end);
}

void bl_multiply_hidden(const bl_hidden* layer, int levels, size_t m, size_t n, size_t k, const void* rounded,
                        size_t begin, size_t end, float* y, size_t stride) {
    const Hidden hidden{*layer, levels, m, n, k, static_cast<const uint8_t*>(rounded)};
    hidden.multiply(begin, end, y, stride);
}

void bl_round_experts(const bl_expert_rows* list, size_t count, int levels, int type, size_t k, const void* x,
                      size_t stride, const int64_t* tokens, size_t part, size_t parts, void* rounded) {
    const Rows rows{levels, type, k, static_cast<const uint8_t*>(x), stride, tokens};
    const size_t all = count ? list[count - 1].end : 0;
    const size_t first = all * part / parts, last = all * (part + 1) / parts;
    for (size_t i = 0; i < count; i++)  // a tile belongs to the part in which it begins
        for (size_t row = list[i].begin; row < list[i].end; row += TILE_ROWS)
            if (row >= first && row < last)
                rows.round(row, list[i].end - row < TILE_ROWS ? list[i].end - row : TILE_ROWS,
                           list[i].end - list[i].begin, static_cast<uint8_t*>(rounded));
}

void bl_multiply_experts(const bl_weight* weights, const bl_expert_rows* list, size_t count, int levels, int type,
                         size_t n, size_t k, const void* rounded, size_t part, size_t parts, void* y,
                         size_t stride) {
    const size_t size = type == BL_F32 ? 4 : 2;
    const Routed routed{list, count, bl_rounded_bytes(levels, 1, k), static_cast<const uint8_t*>(rounded)};
    routed.share(n, part, parts, [&](const bl_expert_rows& rows, const uint8_t* x, size_t begin, size_t end) {
        const bl_weight& weight = weights[rows.expert];
        bl_multiply(&weight.format, levels, type, rows.end - rows.begin, n, k, x, weight.packed, begin, end,
                    static_cast<uint8_t*>(y) + rows.begin * stride * size, stride);
    });
}

void bl_multiply_hidden_experts(const bl_hidden* layers, const bl_expert_rows* list, size_t count, int levels, size_t n,
                                size_t k, const void* rounded, size_t part, size_t parts, float* y, size_t stride) {
    const Routed routed{list, count, bl_rounded_bytes(levels, 1, k), static_cast<const uint8_t*>(rounded)};
    routed.share(n, part, parts, [&](const bl_expert_rows& rows, const uint8_t* x, size_t begin, size_t end) {
        const bl_hidden layer = of_expert(*layers, rows.expert, n);
        bl_multiply_hidden(&layer, levels, rows.end - rows.begin, n, k, x, begin, end, y + rows.begin * stride, stride);
    });
}
}

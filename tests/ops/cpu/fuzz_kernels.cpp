// Random formats, sizes and numbers through all functions of the kernels: all instruction sets must give the same
// bits, and a digest of them is written, which other processors must get too.  Each array has just the bytes that the interface names; behind them is a page that may not be touched,
// or what a sanitizer watches.
// Usage: fuzz_kernels SEED CASES
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "block_linear.h"
#include "random_bytes.hpp"

namespace {

struct Case {
    bl_format format;
    int levels, type;
    size_t m, n, k, stride;
};

Case random_case() {
    for (;;) {
        Case one{{one_of({2, 4, 6, 8}), one_of({0, 16, 32, 64, 128}), one_of({0, 2, 3, 4}), int(upto(2)),
                  one_of({0, 0, 0, 1})},
                 int(1 + upto(1)), int(upto(2)), upto(70), 1 + upto(69), 1 + upto(700), 0};
        const size_t step = one.format.scales == BL_TWO_LEVEL ? 256 : one.format.group ? one.format.group : 4;
        one.k = (one.k + step - 1) / step * step;
        one.stride = one.k + upto(3);
        if (!bl_check(&one.format, one.n, one.k)) return one;
    }
}

size_t size_of(int type) { return type == BL_F32 ? 4 : 2; }

// Activations of all sizes; now and then any bits at all, which may be infinities and NaN.
void fill(const Case& one, Bytes& x) {
    if (!upto(7)) return;
    const int scale = int(upto(26)) - 26;
    for (size_t i = 0; i < x.size / size_of(one.type); i++) {
        const float value = std::ldexp(float(upto(1 << 14)) - (1 << 13), scale);  // the same on each processor
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        const uint16_t half = one.type == BL_BF16 ? bits >> 16 : (generator() & 0xbfff);
        one.type == BL_F32 ? std::memcpy(x.at + 4 * i, &bits, 4) : std::memcpy(x.at + 2 * i, &half, 2);
    }
}

size_t scale_bytes(const Case& one, size_t groups) {
    const int scales = one.format.scales;
    const size_t halves = scales == BL_TWO_LEVEL ? one.n * (one.k / 256) * 2 : 0;
    return groups * (scales == BL_F32 ? 4 : scales == BL_F16 ? 2 : 1) + halves;
}

// Calls part(begin, end) for random spans that cover [0, count).
template <class Part>
void split(size_t count, const Part& part) {
    for (size_t begin = 0, end; begin < count; begin = end) part(begin, end = begin + 1 + upto(count - begin - 1));
}

std::vector<uint8_t> product(const Case& one, const Bytes& packed, const Bytes& x) {
    Bytes rounded(bl_rounded_bytes(one.levels, one.m, one.k));
    const size_t stride = one.n + upto(2);
    Bytes y(one.m ? ((one.m - 1) * stride + one.n) * size_of(one.type) : 0);
    split((one.m + 15) / 16, [&](size_t begin, size_t end) {
        bl_round(one.levels, one.type, one.m, one.k, x.at, one.stride, begin, end, rounded.at);
    });
    split((one.n + 15) / 16, [&](size_t begin, size_t end) {
        bl_multiply(&one.format, one.levels, one.type, one.m, one.n, one.k, rounded.at, packed.at,
                    begin, end, y.at, stride);
    });
    std::vector<uint8_t> rows;
    for (size_t r = 0; r < one.m; r++) {
        const uint8_t* row = y.at + r * stride * size_of(one.type);
        rows.insert(rows.end(), row, row + one.n * size_of(one.type));
    }
    return rows;
}

// Whether a hidden layer, whose gate is the same weight or missing, has the numbers of the products and their activation.
bool hidden_is_right(const Case& one, const Bytes& packed, const Bytes& x, const std::vector<uint8_t>& product) {
    if (one.type != BL_F32) return true;
    Bytes rounded(bl_rounded_bytes(one.levels, one.m, one.k)), y(product.size()), row(one.n * 4), wanted(one.n * 4);
    bl_round(one.levels, one.type, one.m, one.k, x.at, one.stride, 0, (one.m + 15) / 16, rounded.at);
    const bl_weight weight{one.format, packed.at};
    const bl_hidden layer{{BL_RELU2, 0, 0}, upto(1) ? &weight : nullptr, &weight, nullptr, nullptr};
    split((one.n + 15) / 16, [&](size_t begin, size_t end) {
        bl_multiply_hidden(&layer, one.levels, one.m, one.n, one.k, rounded.at, begin, end,
                           reinterpret_cast<float*>(y.at), one.n);
    });
    for (size_t r = 0; r < one.m; r++) {
        std::memcpy(row.at, product.data() + r * row.size, row.size);
        const float* numbers = reinterpret_cast<const float*>(row.at);
        bl_activate(&layer.activation, one.n, layer.gate ? numbers : nullptr, numbers,
                    reinterpret_cast<float*>(wanted.at));
        if (std::memcmp(wanted.at, y.at + r * row.size, row.size)) return false;
    }
    return true;
}

uint32_t bits_at(const std::vector<uint8_t>& y, size_t i, int type) {
    uint32_t bits = 0;
    std::memcpy(&bits, y.data() + i, size_of(type));
    const uint32_t size = bits & (type == BL_F32 ? 0x7fffffff : 0x7fff);
    const uint32_t infinite = type == BL_F32 ? 0x7f800000 : type == BL_F16 ? 0x7c00 : 0x7f80;
    return size > infinite ? ~0u : bits;  // NaN equals NaN
}

uint64_t digest = 0xcbf29ce484222325;

void add_to_digest(uint32_t bits) { digest = (digest ^ bits) * 0x100000001b3; }

bool run_case() {
    const Case one = random_case();
    const size_t groups = one.n * (one.format.group ? one.k / one.format.group : 1);
    const size_t in_byte = one.format.bits == 2 ? 4 : one.format.bits == 4 ? 2 : 1;
    Bytes codes(one.n * one.k / in_byte), scales(scale_bytes(one, groups));
    Bytes zeros(one.format.zeros == BL_INTEGER ? groups : scale_bytes(one, groups));
    for (size_t i = 0; i < codes.size && one.format.bits == 6; i++) codes.at[i] &= 63;
    Bytes x(one.m ? ((one.m - 1) * one.stride + one.k) * size_of(one.type) : 0);
    fill(one, x);
    Bytes packed(bl_packed_bytes(&one.format, one.n, one.k));
    split((one.n + 15) / 16, [&](size_t begin, size_t end) {
        bl_pack(&one.format, one.n, one.k, codes.at, scales.at,
                one.format.zeros ? zeros.at : nullptr, begin, end, packed.at);
    });
    std::vector<uint8_t> first;
    const char* first_name = nullptr;
    for (const char* name : {"avx512vnni", "avxvnni", "avx2", "neon"}) {
        if (!bl_set_isa(name)) continue;
        const std::vector<uint8_t> y = product(one, packed, x);
        if (!first_name) first = y, first_name = name;
        if (!hidden_is_right(one, packed, x, y)) {
            std::printf("%s: a hidden layer of bits %d group %d levels %d, m %zu n %zu k %zu\n", name, one.format.bits,
                        one.format.group, one.levels, one.m, one.n, one.k);
            return false;
        }
        for (size_t i = 0; i < y.size(); i += size_of(one.type))
            if (bits_at(y, i, one.type) != bits_at(first, i, one.type)) {
                std::printf("%s and %s differ at %zu: bits %d group %d scales %d zeros %d table %d levels %d type %d, "
                            "m %zu n %zu k %zu\n",
                            first_name, name, i, one.format.bits, one.format.group, one.format.scales,
                            one.format.zeros, one.format.table, one.levels, one.type, one.m, one.n, one.k);
                return false;
            }
    }
    for (size_t i = 0; i < first.size(); i += size_of(one.type)) add_to_digest(bits_at(first, i, one.type));
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    for (int i = 0; i < std::atoi(argv[2]); i++) {
        generator.seed(unsigned(std::atoi(argv[1]) * 100000 + i));  // each instruction set draws other numbers
        if (!run_case()) return 1;
        bl_format any;
        for (int32_t* field : {&any.bits, &any.group, &any.scales, &any.zeros, &any.table})
            *field = one_of({0, 1, 2, 3, 4, 8, 16, 32, -1, int32_t(generator())});
        bl_check(&any, generator(), generator());
    }
    std::printf("%s cases %016llx\n", argv[2], static_cast<unsigned long long>(digest));
    return 0;
}

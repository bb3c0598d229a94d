// What linear layers share whose weights are as files of OpenVINO and ONNX have them.
#pragma once

#include "openvino_linear.hpp"
#include "stored_weight.h"

namespace braid {

class StoredLinear : public PackedLinear {
public:
    using PackedLinear::PackedLinear;

protected:
    // A weight [n, groups * group] by the types of its numbers, without their bytes; dynamic: there are no zeros.
    StoredWeight stored_weight(size_t n, size_t groups, size_t group, const ov::element::Type& codes,
                               const ov::element::Type& scales, const ov::element::Type& zeros) const {
        const bool is_signed = codes == ov::element::i4 || codes == ov::element::i8;
        const bool is_known = is_signed || codes == ov::element::u4 || codes == ov::element::u8;
        NODE_VALIDATION_CHECK(this, is_known, codes);
        NODE_VALIDATION_CHECK(this, scales == ov::element::f32 || scales == ov::element::f16, scales);
        StoredWeight weight{};
        weight.n = n;
        weight.k = groups * group;
        weight.group = group;
        weight.bits = int(codes.bitwidth());
        weight.is_signed = is_signed;
        weight.half_scales = scales == ov::element::f16;
        NODE_VALIDATION_CHECK(this, n && weight.k && weight.k * weight.bits % 8 == 0, n, " x ", weight.k);
        if (zeros == ov::element::dynamic) return weight;
        NODE_VALIDATION_CHECK(this, zeros == codes || (zeros == ov::element::f32 && !weight.half_scales),
                              "zero points of ", zeros);
        weight.zeros = zeros == codes ? Zeros::INTEGERS : Zeros::FLOATS;
        return weight;
    }

    // A piece at a time, after which between() is called.
    template <class Between>
    static void pack_stored(const StoredWeight& weight, PackedWeight& to, const Between& between) {
        StoredWeight::Narrow is;
        const size_t blocks = std::max<size_t>(1, PIECE_BYTES / (BLOCK_CHANNELS * weight.k));
        const auto in_pieces = [&](size_t count, size_t piece, const auto& part) {
            for (size_t first = 0; first < count; first += piece, between())
                in_parallel(std::min(piece, count - first),
                            [&](size_t begin, size_t end) { part(first + begin, first + end); });
        };
        in_pieces(weight.n, blocks * BLOCK_CHANNELS,
                  [&](size_t begin, size_t end) { weight.examine(begin, end, is); });
        to.format = weight.narrowed(is);
        to.bytes = HugePages::take(bl_packed_bytes(&to.format, weight.n, weight.k));
        in_pieces(to.blocks(), blocks,
                  [&](size_t begin, size_t end) { weight.pack(to.format, begin, end, to.bytes.get()); });
    }

private:
    static constexpr size_t PIECE_BYTES = 32 << 20;  // of codes of eight bits
};

}  // namespace braid

// What OpenVINO's operators with a packed weight share: y = x · Wᵀ by the kernels of block_linear.h.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "block_linear.h"
#include "huge_pages.h"
#include "openvino/op/op.hpp"
#include "openvino_threads.hpp"

namespace braid {

constexpr size_t BLOCK_CHANNELS = 16, TILE = 16;  // channels that are packed together, rows that are rounded so
constexpr size_t ROUNDED_BY_ONE = 32 * 1024;      // numbers that one thread rounds sooner than several would

struct Packed {
    std::once_flag once;
    bl_format format;
    std::shared_ptr<void> bytes;
};

// A linear layer whose weight is packed at the first evaluation, by the threads of the inference; all copies of
// the node that a device makes share it.
class PackedLinear : public ov::op::Op {
public:
    using Op::Op;

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        std::call_once(m_packed->once, [&] { pack(inputs, *m_packed); });
        const size_t k = inputs[0].get_shape().back(), m = inputs[0].get_size() / k;
        const size_t n = outputs[0].get_shape().back();
        const int levels = int(m_levels), type = type_of(inputs[0].get_element_type());
        static thread_local std::vector<uint64_t> scratch;
        scratch.resize((bl_rounded_bytes(levels, m, k) + 64) / 8);
        void* rounded = reinterpret_cast<void*>((reinterpret_cast<size_t>(scratch.data()) + 63) / 64 * 64);
        const void* x = inputs[0].data();
        void* y = outputs[0].data();
        const auto round = [&](size_t begin, size_t end) {
            bl_round(levels, type, m, k, x, k, begin, end, rounded);
        };
        const size_t tiles = (m + TILE - 1) / TILE;
        m * k > ROUNDED_BY_ONE ? in_parallel(tiles, round) : round(0, tiles);
        in_parallel((n + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS, [&](size_t begin, size_t end) {
            bl_multiply(&m_packed->format, levels, type, m, n, k, rounded, m_packed->bytes.get(), begin, end,
                        y, n);
        });
        return true;
    }

protected:
    // Fills `packed`; throws what keeps it from that.
    virtual void pack(const ov::TensorVector& inputs, Packed& packed) const = 0;

    // Checks x [..., k] and the format of a weight [n, k], and sets the type and shape of y.
    void infer_product(const bl_format& format, size_t n, size_t k) {
        NODE_VALIDATION_CHECK(this, m_levels == 1 || m_levels == 2, "levels is ", m_levels);
        const ov::element::Type rows = get_input_element_type(0);
        NODE_VALIDATION_CHECK(
            this, rows == ov::element::f32 || rows == ov::element::bf16 || rows == ov::element::f16, rows);
        ov::PartialShape shape = get_input_partial_shape(0);
        NODE_VALIDATION_CHECK(this, shape.rank().is_static() && shape.size(), "x has an unknown rank");
        const ov::Dimension inner = shape[shape.size() - 1];
        NODE_VALIDATION_CHECK(this, inner.is_static() && size_t(inner.get_length()) == k,
                              "x and the weight differ in k: ", inner, " and ", k);
        const char* problem = bl_check(&format, n, k);
        NODE_VALIDATION_CHECK(this, !problem, problem ? problem : "");
        shape[shape.size() - 1] = n;
        set_output_type(0, rows, shape);
    }

    int64_t m_levels = 0;
    std::shared_ptr<Packed> m_packed = std::make_shared<Packed>();
};

}  // namespace braid

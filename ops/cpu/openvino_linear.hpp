// What OpenVINO's operators with a packed weight share: y = x · Wᵀ by the kernels of block_linear.h.
#pragma once

#include <algorithm>
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

// A weight [n][k], whose bytes are there when it is packed.
struct PackedWeight {
    bl_format format;
    size_t n;
    std::shared_ptr<void> bytes;

    size_t blocks() const { return (n + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS; }
};

struct Packed {
    std::once_flag once;
    std::vector<PackedWeight> weights;  // whose channels follow one another
    size_t n = 0, k = 0;                // of all of them, when they were checked

    size_t blocks() const {
        size_t all = 0;
        for (const PackedWeight& weight : weights) all += weight.blocks();
        return all;
    }
};

// A linear layer of one or several weights, which are packed at the first evaluation, by the threads of the
// inference; all copies of the node that a device makes share them.
//
// Attributes: levels, of int8 numbers that stand for an activation, 1 or 2; parts, the channels of each output, which
// ends with a weight or with a multiple of 16 of its channels, or 0: there is one output; and gated, 1 + the number of
// an activation in block_linear.h, where the first half of the channels is a gate and the output its product with the
// other half, or 0.
class PackedLinear : public ov::op::Op {
public:
    using Op::Op;

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        std::call_once(m_packed->once, [&] { pack(inputs, *m_packed); });
        const size_t k = m_packed->k, m = inputs[0].get_size() / k;
        const int levels = int(m_levels), type = type_of(inputs[0].get_element_type());
        static thread_local std::vector<uint64_t> scratch;
        const size_t size = (bl_rounded_bytes(levels, m, k) + 64) / 8;
        if (scratch.size() < size) scratch.resize(size);
        void* rounded = reinterpret_cast<void*>((reinterpret_cast<size_t>(scratch.data()) + 63) / 64 * 64);
        const void* x = inputs[0].data();
        const auto round = [&](size_t begin, size_t end) { bl_round(levels, type, m, k, x, k, begin, end, rounded); };
        const size_t tiles = (m + TILE - 1) / TILE;
        m * k > ROUNDED_BY_ONE ? in_parallel(tiles, round) : round(0, tiles);
        const size_t blocks = m_gated ? (m_packed->n / 2 + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS : m_packed->blocks();
        in_parallel(blocks, [&](size_t begin, size_t end) {
            m_gated ? multiply_gated(m, rounded, begin, end, outputs[0])
                    : multiply(m, levels, type, rounded, begin, end, outputs);
        });
        return true;
    }

protected:
    // Gives the weights of `packed` their bytes, and the formats of these; throws what keeps it from that.
    virtual void pack(const ov::TensorVector& inputs, Packed& packed) const = 0;

    // Checks x [..., k] and the formats of weights [n, k], and sets the type and shape of y.
    void infer_product(const std::vector<PackedWeight>& weights, size_t k) {
        NODE_VALIDATION_CHECK(this, m_levels == 1 || m_levels == 2, "levels is ", m_levels);
        const ov::element::Type rows = get_input_element_type(0);
        NODE_VALIDATION_CHECK(
            this, rows == ov::element::f32 || rows == ov::element::bf16 || rows == ov::element::f16, rows);
        ov::PartialShape shape = get_input_partial_shape(0);
        NODE_VALIDATION_CHECK(this, shape.rank().is_static() && shape.size(), "x has an unknown rank");
        const ov::Dimension inner = shape[shape.size() - 1];
        NODE_VALIDATION_CHECK(this, inner.is_static() && size_t(inner.get_length()) == k,
                              "x and the weight differ in k: ", inner, " and ", k);
        size_t n = 0;
        for (const PackedWeight& weight : weights) {
            const char* problem = bl_check(&weight.format, weight.n, k);
            NODE_VALIDATION_CHECK(this, !problem, problem ? problem : "");
            n += weight.n;
        }
        m_gated ? check_gate(weights) : check_parts(weights, n);
        m_packed->weights = weights, m_packed->n = n, m_packed->k = k;
        set_outputs(shape);
    }

    // Whether the weight was checked before, as it was in all copies of a node but the first: then the outputs are
    // set.  Devices copy a node at each evaluation, to find the shapes of its outputs.
    bool infer_again() {
        if (!m_packed->n) return false;
        const ov::PartialShape& shape = get_input_partial_shape(0);
        const ov::Dimension inner = shape[shape.size() - 1];
        NODE_VALIDATION_CHECK(this, inner.is_static() && size_t(inner.get_length()) == m_packed->k, inner);
        if (m_gated) check_gate(m_packed->weights);
        set_outputs(shape);
        return true;
    }

    void copy_settings(PackedLinear& to) const {
        to.m_levels = m_levels, to.m_gated = m_gated, to.m_parts = m_parts, to.m_packed = m_packed;
    }

    void visit_settings(ov::AttributeVisitor& visitor) {
        visitor.on_attribute("levels", m_levels);
        visitor.on_attribute("gated", m_gated);
        visitor.on_attribute("parts", m_parts);
    }

    int64_t m_levels = 0, m_gated = 0;
    std::vector<int64_t> m_parts{0};  // not empty, as lists in OpenVINO's files must not be
    std::shared_ptr<Packed> m_packed = std::make_shared<Packed>();

private:
    void check_gate(const std::vector<PackedWeight>& weights) const {
        const ov::element::Type rows = get_input_element_type(0);
        NODE_VALIDATION_CHECK(this, m_gated > 0 && m_gated <= BL_CLAMPED, "no such activation");
        NODE_VALIDATION_CHECK(this, rows == ov::element::f32, "a gate of ", rows);
        NODE_VALIDATION_CHECK(this, m_parts.size() == 1 && !m_parts[0], "a gate has one output");
        const bool is_whole = weights.size() == 1 && weights[0].n % (2 * BLOCK_CHANNELS) == 0;
        NODE_VALIDATION_CHECK(this, is_whole || (weights.size() == 2 && weights[0].n == weights[1].n), "halves");
    }

    void check_parts(const std::vector<PackedWeight>& weights, size_t n) const {
        if (m_parts.size() == 1 && !m_parts[0]) return;
        size_t weight = 0, first = 0, all = 0;  // the weight that an output begins in, its first channel
        for (const int64_t part : m_parts) {
            while (weight < weights.size() && all >= first + weights[weight].n) first += weights[weight++].n;
            NODE_VALIDATION_CHECK(this, (all - first) % BLOCK_CHANNELS == 0 && part > 0, "parts");
            all += size_t(part);
        }
        NODE_VALIDATION_CHECK(this, all == n, "parts of ", n, " channels");
    }

    // Blocks [begin, end) of 16 channels of all weights, whose channels the outputs have one after the other.
    void multiply(size_t m, int levels, int type, const void* rounded, size_t begin, size_t end,
                  ov::TensorVector& outputs) const {
        size_t before = 0, output = 0, column = 0;  // blocks of earlier weights; where the next channel is written
        for (const PackedWeight& weight : m_packed->weights) {
            for (size_t first = 0, last; first < weight.n; first = last) {
                ov::Tensor& to = outputs[output];
                const size_t width = to.get_shape().back(), size = to.get_element_type().size();
                last = std::min(weight.n, first + width - column);
                const size_t from = std::max(begin, before + first / BLOCK_CHANNELS);
                const size_t until = std::min(end, before + (last + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS);
                // where channel 0 would be, if the output had it
                const size_t y = reinterpret_cast<size_t>(to.data()) + column * size - first * size;
                if (from < until)
                    bl_multiply(&weight.format, levels, type, m, last, m_packed->k, rounded, weight.bytes.get(),
                                from - before, until - before, reinterpret_cast<void*>(y), width);
                column += last - first;
                if (column == width) output++, column = 0;
            }
            before += weight.blocks();
        }
    }

    // Blocks [begin, end) of 16 channels of the first half of all channels, activated, times the second half.
    void multiply_gated(size_t m, const void* rounded, size_t begin, size_t end, ov::Tensor& y) const {
        const PackedWeight &first = m_packed->weights.front(), &second = m_packed->weights.back();
        const size_t n = m_packed->n / 2, k = m_packed->k;
        const size_t before = m_packed->weights.size() == 1 ? bl_packed_bytes(&first.format, n, k) : 0;
        const bl_weight gate{first.format, first.bytes.get()};
        const bl_weight up{second.format, static_cast<const uint8_t*>(second.bytes.get()) + before};
        const bl_hidden layer{{int32_t(m_gated) - 1, 0.0f, 0.0f}, &gate, &up, nullptr, nullptr};
        bl_multiply_hidden(&layer, int(m_levels), m, n, k, rounded, begin, end, y.data<float>(), n);
    }

    void set_outputs(ov::PartialShape shape) {
        set_output_size(m_parts.size());
        const int64_t all = int64_t(m_gated ? m_packed->n / 2 : m_packed->n);
        for (size_t i = 0; i < m_parts.size(); i++) {
            shape[shape.size() - 1] = m_parts[i] ? m_parts[i] : all;
            set_output_type(i, get_input_element_type(0), shape);
        }
    }
};

}  // namespace braid

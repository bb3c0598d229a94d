// OpenVINO's operator braid.Experts: the routed experts of a layer, whose weights are constants.
//
// Inputs after those of ExpertNetwork: codes, scales, zeros and biases of up, down and gate, as Braid's ONNX form has
// them: u8 [experts, rows, groups, bytes of a group]; f32 or f16 [experts, rows, groups]; u8 or f32; and f32
// [experts, rows].  Or as OpenVINO's files have them: codes u4, i4, u8 or i8 [experts, rows, groups, group], or
// without groups; and zeros of that type, one for each group.  Those that are absent have less than two axes.  All
// are read in place: an expert is packed when it is first chosen, by the threads of the inference, and pages of a
// mapped file are given back then.
//
// Attributes beside those of ExpertNetwork: table; bits and blocks, of up, down and gate.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "expert_weights.hpp"
#include "openvino_expert_network.hpp"
#include "openvino_shapes.hpp"

namespace braid {

class Experts : public ExpertNetwork {
public:
    OPENVINO_OP("Experts", "braid");

    Experts() = default;

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, get_input_size() == INPUTS, get_input_size(), " inputs");
        if (!m_is_checked) check_weights();
        m_is_checked = true;
        infer_mixed(sizes());
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<Experts>();
        made->set_arguments(inputs);
        copy_settings(*made);
        made->m_table = m_table, made->m_bits = m_bits, made->m_blocks = m_blocks;
        made->m_packed = m_packed;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visit_settings(visitor);
        visitor.on_attribute("table", m_table);
        visitor.on_attribute("bits", m_bits);
        visitor.on_attribute("blocks", m_blocks);
        return true;
    }

protected:
    Sizes sizes() const override {
        const ov::Shape &up = get_input_shape(input_of(UP, CODES)), &down = get_input_shape(input_of(DOWN, CODES));
        return {up[0], down[1], up[1], is_given(GATE, CODES)};
    }

    void prepare(const ov::TensorVector& inputs, const std::vector<bl_expert_rows>& list) const override {
        const std::lock_guard<std::mutex> lock(m_packed->mutex);
        const size_t parts = sizes().parts();
        if (!m_packed->is_ready) read_constants(inputs, parts);
        for (const bl_expert_rows& rows : list)
            for (size_t part = 0; part < parts; part++)
                if (!m_packed->weights[part].has(rows.expert))
                    m_packed->weights[part].pack(rows.expert,
                                                 [](size_t size, const auto& one) { in_parallel(size, one); });
    }

    const bl_weight* weights(size_t part) const override { return m_packed->weights[part].packed(); }

    const float* biases(size_t part, const ov::TensorVector& inputs) const override {
        return is_given(part, BIAS) ? static_cast<const float*>(inputs[input_of(part, BIAS)].data()) : nullptr;
    }

private:
    static constexpr size_t CODES = 0, SCALES = 1, ZEROS = 2, BIAS = 3, INPUTS = ROUTED + 4 * PARTS;

    // What all copies of a node share that a device makes.
    struct PackedExperts {
        std::mutex mutex;
        bool is_ready = false;
        std::array<ExpertWeights, PARTS> weights;
    };

    void check_weights() const {
        NODE_VALIDATION_CHECK(this, m_bits.size() == PARTS && m_blocks.size() == PARTS, "bits and blocks");
        for (size_t input = ROUTED; input < INPUTS; input++)
            NODE_VALIDATION_CHECK(this, get_input_partial_shape(input).is_static(), "no fixed shape");
        const StoredWeight up = described(UP), down = described(DOWN);
        NODE_VALIDATION_CHECK(this, up.n == down.k && up.k == down.n, "up and down do not fit together");
        const Sizes all = sizes();
        if (all.has_gate) {
            const StoredWeight gate = described(GATE);
            NODE_VALIDATION_CHECK(this, gate.n == up.n && gate.k == up.k, "gate and up differ");
        }
        for (size_t part = 0; part < all.parts(); part++) has_bias(input_of(part, BIAS), all.experts, all.rows(part));
    }

    static size_t input_of(size_t part, size_t kind) { return ROUTED + 4 * part + kind; }
    bool is_given(size_t part, size_t kind) const { return get_input_shape(input_of(part, kind)).size() > 1; }

    // The weight of an expert as the constants of a part say; without their bytes.
    StoredWeight described(size_t part) const {
        ov::Shape shape = get_input_shape(input_of(part, CODES));
        const ov::element::Type scales = get_input_element_type(input_of(part, SCALES));
        const ov::element::Type codes = get_input_element_type(input_of(part, CODES));
        const bool is_signed = codes == ov::element::i4 || codes == ov::element::i8;
        const bool are_packed = codes == ov::element::u4 || codes == ov::element::i4;  // by OpenVINO
        NODE_VALIDATION_CHECK(this, are_packed || is_signed || codes == ov::element::u8, "codes of ", codes);
        if (shape.size() == 3) shape.insert(shape.begin() + 2, 1);
        NODE_VALIDATION_CHECK(this, shape.size() == 4 && shape[0] && shape[1] && shape[2] && m_blocks[part] > 0, shape);
        NODE_VALIDATION_CHECK(this, scales == ov::element::f32 || scales == ov::element::f16, scales);
        const size_t group_bits = size_t(m_blocks[part] * m_bits[part]);
        NODE_VALIDATION_CHECK(this, shape[3] * codes.bitwidth() == group_bits, shape);
        NODE_VALIDATION_CHECK(this, !is_signed || m_bits[part] == int64_t(codes.bitwidth()), m_bits[part], " bits");
        StoredWeight weight{};
        weight.n = shape[1];
        weight.group = size_t(m_blocks[part]);
        weight.k = shape[2] * weight.group;
        weight.bits = int(m_bits[part]);
        weight.is_signed = is_signed;
        weight.half_scales = scales == ov::element::f16;
        weight.table = m_table && weight.bits == 4 ? BL_E2M1 : BL_LINEAR;
        NODE_VALIDATION_CHECK(this, has_axes(get_input_shape(input_of(part, SCALES)), {shape[0], shape[1], shape[2]}),
                              "scales");
        if (is_given(part, ZEROS)) weight.zeros = zeros_of(part, shape, weight);
        const bl_format format = weight.widest();
        const char* problem = bl_check(&format, weight.n, weight.k);
        NODE_VALIDATION_CHECK(this, !problem, problem ? problem : "");
        return weight;
    }

    // `codes` is the shape of the codes, with four axes.
    Zeros zeros_of(size_t part, const ov::Shape& codes, const StoredWeight& weight) const {
        const ov::Shape shape = get_input_shape(input_of(part, ZEROS));
        const ov::element::Type type = get_input_element_type(input_of(part, ZEROS));
        const size_t bits = codes[2] * size_t(weight.bits);
        const bool is_by_scale = has_axes(shape, {codes[0], codes[1], codes[2]});
        if (type == ov::element::f32) {
            NODE_VALIDATION_CHECK(this, is_by_scale && !weight.half_scales, "zeros");
            return Zeros::FLOATS;
        }
        NODE_VALIDATION_CHECK(this, type == get_input_element_type(input_of(part, CODES)), "zeros of ", type);
        NODE_VALIDATION_CHECK(this, codes[1] * bits % 8 == 0, "zeros of an expert are no whole bytes");
        const bool are_packed = type.bitwidth() == 8 && weight.bits < 8;  // rows are whole bytes then
        NODE_VALIDATION_CHECK(
            this, are_packed ? bits % 8 == 0 && has_axes(shape, {codes[0], codes[1], bits / 8}) : is_by_scale, "zeros");
        return Zeros::INTEGERS;
    }

    void read_constants(const ov::TensorVector& inputs, size_t parts) const {
        const size_t experts = sizes().experts;
        for (size_t part = 0; part < parts; part++) {
            StoredWeight weight = described(part);
            weight.codes = static_cast<const uint8_t*>(inputs[input_of(part, CODES)].data());
            weight.scales = inputs[input_of(part, SCALES)].data();
            if (is_given(part, ZEROS)) weight.zero_points = inputs[input_of(part, ZEROS)].data();
            m_packed->weights[part] = ExpertWeights(weight, experts);
        }
        m_packed->is_ready = true;
    }

    int64_t m_table = 0;
    std::vector<int64_t> m_bits, m_blocks;
    std::shared_ptr<PackedExperts> m_packed = std::make_shared<PackedExperts>();
};

}  // namespace braid

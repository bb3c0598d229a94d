// OpenVINO's operator braid.BlockLinear: y = x · Wᵀ by the kernels of block_linear.h.
//
// Inputs: x [..., k], f32, bf16 or f16; codes [n, k] or [n, groups, group], u4, i4, u8 or i8; scales, f32 or
// f16, one for each group; and zero points, whole numbers of the type of the codes or f32, one for each group.
// Without them the zero point of u4 and u8 is the middle, 8 or 128, that of i4 and i8 is 0.  The last three are
// the constants of the model as they are, read in place.
//
// Attributes: those of PackedLinear, and codes, the name of their type, by which a device is found out that widens
// constants.
#pragma once

#include <string>

#include "openvino_linear.hpp"
#include "openvino_shapes.hpp"
#include "stored_weight.h"

namespace braid {

class BlockLinear : public PackedLinear {
public:
    OPENVINO_OP("BlockLinear", "braid");

    BlockLinear() = default;

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, get_input_size() == 3 || get_input_size() == 4);
        for (size_t input = 1; input < get_input_size(); input++)
            NODE_VALIDATION_CHECK(this, get_input_partial_shape(input).is_static(), "no fixed shape");
        if (m_packed->n && get_input_element_type(1).get_type_name() == m_codes && infer_again()) return;
        const StoredWeight weight = described();
        m_codes = get_input_element_type(1).get_type_name();
        infer_product(weight.widest(), weight.n, weight.k);
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<BlockLinear>();
        made->set_arguments(inputs);
        copy_settings(*made);
        made->m_codes = m_codes;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visit_settings(visitor);
        visitor.on_attribute("codes", m_codes);
        return true;
    }

protected:
    void pack(const ov::TensorVector& inputs, Packed& packed) const override {
        StoredWeight weight = described();
        weight.codes = static_cast<const uint8_t*>(inputs[1].data());
        weight.scales = inputs[2].data();
        weight.zero_points = inputs.size() > 3 ? inputs[3].data() : nullptr;
        StoredWeight::Narrow is;
        in_parallel(weight.n, [&](size_t begin, size_t end) { weight.examine(begin, end, is); });
        packed.format = weight.narrowed(is);
        packed.bytes = HugePages::take(bl_packed_bytes(&packed.format, weight.n, weight.k));
        in_parallel((weight.n + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS, [&](size_t begin, size_t end) {
            weight.pack(packed.format, begin, end, packed.bytes.get());
        });
    }

private:
    // The weight as its constants say; without their bytes.
    StoredWeight described() const {
        const ov::element::Type codes = get_input_element_type(1), scales = get_input_element_type(2);
        const ov::Shape shape = get_input_shape(1);
        NODE_VALIDATION_CHECK(this, m_codes.empty() || m_codes == codes.get_type_name(), codes, " for ", m_codes);
        const bool is_signed = codes == ov::element::i4 || codes == ov::element::i8;
        const bool is_known = is_signed || codes == ov::element::u4 || codes == ov::element::u8;
        NODE_VALIDATION_CHECK(this, is_known && (shape.size() == 2 || shape.size() == 3), codes, shape);
        NODE_VALIDATION_CHECK(this, scales == ov::element::f32 || scales == ov::element::f16, scales);
        StoredWeight weight{};
        weight.n = shape[0];
        weight.k = shape.size() == 3 ? shape[1] * shape[2] : shape[1];
        weight.group = shape.back();
        weight.bits = int(codes.bitwidth());
        weight.is_signed = is_signed;
        weight.half_scales = scales == ov::element::f16;
        NODE_VALIDATION_CHECK(this, weight.n && weight.k && weight.k * weight.bits % 8 == 0, shape);
        for (size_t input = 2; input < get_input_size(); input++)
            NODE_VALIDATION_CHECK(this, has_axes(get_input_shape(input), {weight.n, weight.groups()}),
                                  get_input_shape(input));
        if (get_input_size() == 4) {
            const ov::element::Type zeros = get_input_element_type(3);
            NODE_VALIDATION_CHECK(this, zeros == codes || (zeros == ov::element::f32 && !weight.half_scales),
                                  "zero points of ", zeros);
            weight.zeros = zeros == codes ? Zeros::INTEGERS : Zeros::FLOATS;
        }
        return weight;
    }

    std::string m_codes;
};

}  // namespace braid

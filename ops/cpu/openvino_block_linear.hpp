// OpenVINO's operator braid.BlockLinear: y = x · Wᵀ by the kernels of block_linear.h.
//
// Inputs: x [..., k], f32, bf16 or f16; codes [n, k] or [n, groups, group], u4, i4, u8 or i8; scales, f32 or
// f16, one for each group; and zero points, whole numbers of the type of the codes or f32, one for each group.
// Without them the zero point of u4 and u8 is the middle, 8 or 128, that of i4 and i8 is 0.  The last three are
// the constants of the model as they are, read in place.  Several weights follow one another, all with zero points
// or none.
//
// Attributes: those of PackedLinear; weights, how many there are; and codes, the names of their types with a space
// between them, by which a device is found out that widens constants.
#pragma once

#include <string>

#include "openvino_shapes.hpp"
#include "openvino_stored_linear.hpp"

namespace braid {

class BlockLinear : public StoredLinear {
public:
    OPENVINO_OP("BlockLinear", "braid");

    BlockLinear() = default;

    void validate_and_infer_types() override {
        if (m_packed->n && has_same_types() && infer_again()) return;
        NODE_VALIDATION_CHECK(this, m_weights > 0 && (get_input_size() - 1) % m_weights == 0 &&
                                        (inputs_each() == 2 || inputs_each() == 3),
                              get_input_size(), " inputs of ", m_weights, " weights");
        std::vector<PackedWeight> weights;
        std::vector<ov::element::Type> types;
        std::string names;
        size_t k = 0;
        for (size_t number = 0; number < size_t(m_weights); number++) {
            const StoredWeight weight = described(number);
            NODE_VALIDATION_CHECK(this, !k || weight.k == k, "weights of ", k, " and ", weight.k, " columns");
            k = weight.k;
            weights.push_back({weight.widest(), weight.n, nullptr});
            types.push_back(type_of_codes(number));
            names += (number ? " " : "") + types.back().get_type_name();
        }
        NODE_VALIDATION_CHECK(this, m_codes.empty() || m_codes == names, names, " for ", m_codes);
        m_codes = names;
        *m_types = types;
        infer_product(weights, k);
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<BlockLinear>();
        made->set_arguments(inputs);
        copy_settings(*made);
        made->m_weights = m_weights, made->m_codes = m_codes, made->m_types = m_types;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visit_settings(visitor);
        visitor.on_attribute("weights", m_weights);
        visitor.on_attribute("codes", m_codes);
        return true;
    }

protected:
    void pack(const ov::TensorVector& inputs, Packed& packed) const override {
        for (size_t number = 0; number < packed.weights.size(); number++) {
            StoredWeight weight = described(number);
            const size_t first = first_input(number);
            weight.codes = static_cast<const uint8_t*>(inputs[first].data());
            weight.scales = inputs[first + 1].data();
            weight.zero_points = inputs_each() > 2 ? inputs[first + 2].data() : nullptr;
            pack_stored(weight, packed.weights[number], [] {});
        }
    }

private:
    size_t inputs_each() const { return (get_input_size() - 1) / size_t(m_weights); }
    size_t first_input(size_t number) const { return 1 + number * inputs_each(); }
    ov::element::Type type_of_codes(size_t number) const { return get_input_element_type(first_input(number)); }

    bool has_same_types() const {
        for (size_t number = 0; number < m_types->size(); number++)
            if (type_of_codes(number) != (*m_types)[number]) return false;
        return true;
    }

    // A weight as its constants say; without their bytes.
    StoredWeight described(size_t number) const {
        const size_t first = first_input(number);
        for (size_t input = first; input < first + inputs_each(); input++)
            NODE_VALIDATION_CHECK(this, get_input_partial_shape(input).is_static(), "no fixed shape");
        const bool has_zeros = inputs_each() == 3;
        const ov::element::Type zeros = has_zeros ? get_input_element_type(first + 2) : ov::element::dynamic;
        const ov::Shape shape = get_input_shape(first);
        NODE_VALIDATION_CHECK(this, shape.size() == 2 || shape.size() == 3, shape);
        const StoredWeight weight = stored_weight(shape[0], shape.size() == 3 ? shape[1] : 1, shape.back(),
                                                  type_of_codes(number), get_input_element_type(first + 1), zeros);
        for (size_t input = first + 1; input < first + inputs_each(); input++)
            NODE_VALIDATION_CHECK(this, has_axes(get_input_shape(input), {weight.n, weight.groups()}),
                                  get_input_shape(input));
        return weight;
    }

    int64_t m_weights = 1;
    std::string m_codes;
    std::shared_ptr<std::vector<ov::element::Type>> m_types = std::make_shared<std::vector<ov::element::Type>>();
};

}  // namespace braid

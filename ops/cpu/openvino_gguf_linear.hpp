// OpenVINO's operator braid.GgufLinear: y = x · Wᵀ, where the rows of W are in a GGUF file.
//
// Input: x [..., k], f32, bf16 or f16.  No constant: the weight is read from the file and packed at the first
// evaluation, after which the file is not needed any more.
//
// Attributes: those of PackedLinear, and those of GgufPlace.
#pragma once

#include "openvino_gguf_place.hpp"
#include "openvino_linear.hpp"

namespace braid {

class GgufLinear : public PackedLinear {
public:
    OPENVINO_OP("GgufLinear", "braid");

    GgufLinear() = default;

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, get_input_size() == 1);
        if (infer_again()) return;
        NODE_VALIDATION_CHECK(this, m_place->is_known(), "type is ", m_place->type);
        const GgufWeight weight = m_place->weight();
        NODE_VALIDATION_CHECK(this, weight.n(), "no rows of ", m_place->k, " weights");
        infer_product({{m_place->format(), weight.n(), nullptr}}, size_t(m_place->k));
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<GgufLinear>();
        made->set_arguments(inputs);
        copy_settings(*made);
        made->m_place = m_place;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visit_settings(visitor);
        m_place->visit(visitor, "");
        return true;
    }

protected:
    void pack(const ov::TensorVector&, Packed& packed) const override {
        const GgufWeight weight = m_place->weight();
        const SourceFile file = m_place->open();
        PackedWeight& to = packed.weights[0];
        const auto bytes = HugePages::take(bl_packed_bytes(&to.format, to.n, packed.k));
        in_parallel(to.blocks(), [&](size_t begin, size_t end) { weight.pack(file, 0, to.n, begin, end, bytes.get()); });
        file.check();
        to.bytes = bytes;
    }

private:
    std::shared_ptr<GgufPlace> m_place = std::make_shared<GgufPlace>();  // that copies share
};

}  // namespace braid

// OpenVINO's operator braid.GgufLinear: y = x · Wᵀ, where the rows of W are in a GGUF file.
//
// Input: x [..., k], f32, bf16 or f16.  No constant: the weight is read from the file and packed at the first
// evaluation, after which the file is not needed any more.
//
// Attributes: levels, as of BlockLinear, and those of GgufPlace.
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
        NODE_VALIDATION_CHECK(this, m_place.is_known(), "type is ", m_place.type);
        const GgufWeight weight = m_place.weight();
        NODE_VALIDATION_CHECK(this, weight.n(), "no rows of ", m_place.k, " weights");
        infer_product(m_place.format(), weight.n(), size_t(m_place.k));
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<GgufLinear>();
        made->set_arguments(inputs);
        made->m_levels = m_levels;
        made->m_place = m_place;
        made->m_packed = m_packed;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("levels", m_levels);
        m_place.visit(visitor, "");
        return true;
    }

protected:
    void pack(const ov::TensorVector&, Packed& packed) const override {
        const GgufWeight weight = m_place.weight();
        const SourceFile file = m_place.open();
        const size_t n = weight.n();
        packed.format = m_place.format();
        const auto bytes = HugePages::take(bl_packed_bytes(&packed.format, n, size_t(m_place.k)));
        in_parallel((n + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS,
                    [&](size_t begin, size_t end) { weight.pack(file, 0, n, begin, end, bytes.get()); });
        file.check();
        packed.bytes = bytes;
    }

private:
    GgufPlace m_place;
};

}  // namespace braid

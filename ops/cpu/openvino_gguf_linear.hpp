// OpenVINO's operator braid.GgufLinear: y = x · Wᵀ, where the rows of W are in a GGUF file.
//
// Input: x [..., k], f32, bf16 or f16.  No constant: the weight is read from the file and packed at the first
// evaluation, after which the file is not needed any more.
//
// Attributes: levels, as of BlockLinear; file, its path; size and time, what the file has to have: bytes, and ns
// of its last change; type, ggml's number; k; and runs, three numbers for each run of rows (gguf_weight.h).
#pragma once

#include <string>
#include <vector>

#include "gguf_weight.h"
#include "openvino_linear.hpp"

namespace braid {

class GgufLinear : public PackedLinear {
public:
    OPENVINO_OP("GgufLinear", "braid");

    GgufLinear() = default;

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, get_input_size() == 1);
        bl_format format;
        NODE_VALIDATION_CHECK(this, bl_gguf_format(int(m_type), &format), "type is ", m_type);
        const GgufWeight weight = described();
        NODE_VALIDATION_CHECK(this, weight.n(), "no rows of ", m_k, " weights");
        infer_product(format, weight.n(), size_t(m_k));
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<GgufLinear>();
        made->set_arguments(inputs);
        made->m_levels = m_levels;
        made->m_file = m_file, made->m_size = m_size, made->m_time = m_time;
        made->m_type = m_type, made->m_k = m_k, made->m_runs = m_runs;
        made->m_packed = m_packed;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("levels", m_levels);
        visitor.on_attribute("file", m_file);
        visitor.on_attribute("size", m_size);
        visitor.on_attribute("time", m_time);
        visitor.on_attribute("type", m_type);
        visitor.on_attribute("k", m_k);
        visitor.on_attribute("runs", m_runs);
        return true;
    }

protected:
    void pack(const ov::TensorVector&, Packed& packed) const override {
        const GgufWeight weight = described();
        const SourceFile file(m_file, m_size, m_time);
        bl_gguf_format(int(m_type), &packed.format);
        const auto bytes = HugePages::take(bl_packed_bytes(&packed.format, weight.n(), size_t(m_k)));
        in_parallel((weight.n() + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS,
                    [&](size_t begin, size_t end) { weight.pack(file, begin, end, bytes.get()); });
        file.check();
        packed.bytes = bytes;
    }

private:
    GgufWeight described() const { return GgufWeight(int(m_type), size_t(m_k), m_runs); }

    std::string m_file;
    int64_t m_size = 0, m_time = 0, m_type = 0, m_k = 0;
    std::vector<int64_t> m_runs;
};

}  // namespace braid

// OpenVINO's operator braid.GgufRows: rows of a table of embeddings whose weights are blocks of a GGUF file.
//
// Inputs: ids, i64 or i32 of any shape, each a row of the table; and the table, u8 [rows, bytes of a row], a
// constant that is read in place.  Output: f32 [..., k]; zeros for an id that is no row, as OpenVINO's Gather has.
//
// Attributes: type, ggml's number; k, weights of a row.
#pragma once

#include <string>

#include "gguf_blocks.h"
#include "openvino_linear.hpp"

namespace braid {

class GgufRows : public ov::op::Op {
public:
    OPENVINO_OP("GgufRows", "braid");

    GgufRows() = default;

    void validate_and_infer_types() override {
        const ov::element::Type ids = get_input_element_type(0);
        NODE_VALIDATION_CHECK(this, ids == ov::element::i64 || ids == ov::element::i32, "ids are ", ids);
        const ov::PartialShape& table = get_input_partial_shape(1);
        bl_format format;
        NODE_VALIDATION_CHECK(this, bl_gguf_format(int(m_type), &format) && m_k > 0, "type is ", m_type);
        const size_t row_bytes = bl_gguf_row_bytes(int(m_type), size_t(m_k));
        NODE_VALIDATION_CHECK(this, get_input_element_type(1) == ov::element::u8 && table.is_static() &&
                                        table.size() == 2 && row_bytes &&
                                        size_t(table[1].get_length()) == row_bytes,
                              "the table is ", table);
        ov::PartialShape shape = get_input_partial_shape(0);
        NODE_VALIDATION_CHECK(this, shape.rank().is_static(), "ids have an unknown rank");
        shape.push_back(m_k);
        set_output_type(0, ov::element::f32, shape);
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<GgufRows>();
        made->set_arguments(inputs);
        made->m_type = m_type, made->m_k = m_k;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("type", m_type);
        visitor.on_attribute("k", m_k);
        return true;
    }

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        const size_t k = size_t(m_k), count = inputs[0].get_size();
        const size_t rows = inputs[1].get_shape()[0], row_bytes = inputs[1].get_shape()[1];
        const uint8_t* table = inputs[1].data<const uint8_t>();
        const bool is_long = inputs[0].get_element_type() == ov::element::i64;
        const void* ids = inputs[0].data();
        const auto id = [&](size_t i) {
            return is_long ? static_cast<const int64_t*>(ids)[i] : static_cast<const int32_t*>(ids)[i];
        };
        float* out = outputs[0].data<float>();
        const auto look_up = [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; i++)
                if (uint64_t(id(i)) < rows)
                    bl_gguf_unpack(int(m_type), k, table + size_t(id(i)) * row_bytes, out + i * k);
                else
                    std::fill_n(out + i * k, k, 0.0f);
        };
        count * k > ROUNDED_BY_ONE ? in_parallel(count, look_up) : look_up(0, count);
        return true;
    }

private:
    int64_t m_type = 0, m_k = 0;
};

}  // namespace braid

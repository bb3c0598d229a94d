// OpenVINO's operator braid.Experts: the routed experts of a layer, by the kernels of block_linear.h.
//
// mixed[t] = the sum over j of weights[t, j] * down(activation(gate(x), up(x))), x = hidden_states[t], of the
// expert chosen[t, j].  A token's result is the same to the last bit beside any other tokens.
//
// Inputs: hidden_states [.., tokens, width], f32, bf16 or f16; chosen [.., tokens, used], i64 or i32; weights, as
// chosen, f32, bf16 or f16; then codes, scales, zeros and biases of up, down and gate, as Braid's ONNX form has
// them: u8 [experts, rows, groups, bytes of a group]; f32 or f16 [experts, rows, groups]; u8 or f32; and f32
// [experts, rows].  Those that are absent have less than two axes.  All are constants, read in place: an expert is packed
// when it is first chosen, by the threads of the inference, and pages of a mapped file are given back then.
//
// Attributes: levels, of int8 numbers that stand for an activation, 1 or 2; activation, a number of block_linear.h,
// with alpha and limit; table; bits and blocks, of up, down and gate.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "block_linear.h"
#include "expert_weights.hpp"
#include "openvino/op/op.hpp"
#include "openvino_threads.hpp"
#include "routed_rows.hpp"

namespace braid {

class Experts : public ov::op::Op {
public:
    OPENVINO_OP("Experts", "braid");

    Experts() = default;

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, get_input_size() == INPUTS, get_input_size(), " inputs");
        NODE_VALIDATION_CHECK(this, m_levels == 1 || m_levels == 2, "levels is ", m_levels);
        NODE_VALIDATION_CHECK(this, m_bits.size() == PARTS && m_blocks.size() == PARTS, "bits and blocks");
        NODE_VALIDATION_CHECK(this, m_activation >= BL_SILU && m_activation <= BL_CLAMPED, "no such activation");
        for (size_t input = FIRST; input < INPUTS; input++)
            NODE_VALIDATION_CHECK(this, get_input_partial_shape(input).is_static(), "no fixed shape");
        const StoredWeight up = described(UP), down = described(DOWN);
        NODE_VALIDATION_CHECK(this, up.n == down.k && up.k == down.n, "up and down do not fit together");
        if (has_gate()) {
            const StoredWeight gate = described(GATE);
            NODE_VALIDATION_CHECK(this, gate.n == up.n && gate.k == up.k, "gate and up differ");
        }
        NODE_VALIDATION_CHECK(this, has_gate() || m_activation != BL_CLAMPED, "no gate");
        const ov::PartialShape& shape = get_input_partial_shape(0);
        NODE_VALIDATION_CHECK(this, shape.rank().is_static() && shape.size(), "hidden states of an unknown rank");
        const ov::Dimension width = shape[shape.size() - 1];
        NODE_VALIDATION_CHECK(this, width.is_static() && size_t(width.get_length()) == up.k, "width is ", width);
        const ov::element::Type chosen = get_input_element_type(1);
        NODE_VALIDATION_CHECK(this, chosen == ov::element::i64 || chosen == ov::element::i32, chosen);
        for (const size_t input : {0, 2}) {
            const ov::element::Type type = get_input_element_type(input);
            NODE_VALIDATION_CHECK(
                this, type == ov::element::f32 || type == ov::element::bf16 || type == ov::element::f16, type);
        }
        set_output_type(0, get_input_element_type(0), shape);
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<Experts>();
        made->set_arguments(inputs);
        made->m_levels = m_levels, made->m_activation = m_activation, made->m_table = m_table;
        made->m_alpha = m_alpha, made->m_limit = m_limit;
        made->m_bits = m_bits, made->m_blocks = m_blocks;
        made->m_shared = m_shared;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("levels", m_levels);
        visitor.on_attribute("activation", m_activation);
        visitor.on_attribute("alpha", m_alpha);
        visitor.on_attribute("limit", m_limit);
        visitor.on_attribute("table", m_table);
        visitor.on_attribute("bits", m_bits);
        visitor.on_attribute("blocks", m_blocks);
        return true;
    }

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        const std::lock_guard<std::mutex> lock(m_shared->mutex);
        if (!m_shared->is_ready) read_constants(inputs);
        const size_t used = inputs[1].get_shape().back(), tokens = inputs[1].get_size() / used;
        const size_t step = std::max<size_t>(1, MOST_ROWS / used);
        for (size_t first = 0; first < tokens; first += step)
            compute(inputs, outputs[0], first, std::min(step, tokens - first));
        return true;
    }

private:
    static constexpr size_t UP = 0, DOWN = 1, GATE = 2, PARTS = 3;
    static constexpr size_t FIRST = 3, CODES = 0, SCALES = 1, ZEROS = 2, BIAS = 3, INPUTS = FIRST + 4 * PARTS;
    static constexpr size_t MOST_ROWS = 4096;              // that are computed together
    static constexpr size_t COMPUTED_BY_ONE = 32 * 1024;  // numbers that one thread computes sooner than several would

    // What all copies of a node share that a device makes.
    struct Shared {
        std::mutex mutex;
        bool is_ready = false;
        std::array<ExpertWeights, PARTS> weights;
        std::array<const float*, PARTS> biases{};
        RoutedRows rows;
        std::vector<uint64_t> scratch;
    };

    // Memory for one computation, in one piece.
    struct Arrays {
        uint8_t* rounded;  // activations of one of both kinds
        float *up, *gate, *down;
    };

    static size_t input_of(size_t part, size_t kind) { return FIRST + 4 * part + kind; }
    bool is_given(size_t part, size_t kind) const { return get_input_shape(input_of(part, kind)).size() > 1; }
    bool has_gate() const { return is_given(GATE, CODES); }
    size_t experts() const { return get_input_shape(input_of(UP, CODES))[0]; }

    // The weight of an expert as the constants of a part say; without their bytes.
    StoredWeight described(size_t part) const {
        const ov::Shape shape = get_input_shape(input_of(part, CODES));
        const ov::element::Type scales = get_input_element_type(input_of(part, SCALES));
        NODE_VALIDATION_CHECK(this, get_input_element_type(input_of(part, CODES)) == ov::element::u8, "codes");
        NODE_VALIDATION_CHECK(this, shape.size() == 4 && shape[0] && shape[1] && shape[2] && m_blocks[part] > 0, shape);
        NODE_VALIDATION_CHECK(this, scales == ov::element::f32 || scales == ov::element::f16, scales);
        NODE_VALIDATION_CHECK(this, shape[3] * 8 == size_t(m_blocks[part] * m_bits[part]), shape);
        StoredWeight weight{};
        weight.n = shape[1];
        weight.group = size_t(m_blocks[part]);
        weight.k = shape[2] * weight.group;
        weight.bits = int(m_bits[part]);
        weight.half_scales = scales == ov::element::f16;
        weight.table = m_table && weight.bits == 4 ? BL_E2M1 : BL_LINEAR;
        const ov::Shape numbers{shape[0], shape[1], shape[2]};
        NODE_VALIDATION_CHECK(this, get_input_shape(input_of(part, SCALES)) == numbers, "scales");
        if (is_given(part, ZEROS)) weight.zeros = zeros_of(part, numbers, weight);
        const bl_format format = weight.widest();
        const char* problem = bl_check(&format, weight.n, weight.k);
        NODE_VALIDATION_CHECK(this, !problem, problem ? problem : "");
        const ov::Shape bias = get_input_shape(input_of(part, BIAS));
        const bool fits = !is_given(part, BIAS) || (bias == ov::Shape{shape[0], shape[1]} &&
                                                    get_input_element_type(input_of(part, BIAS)) == ov::element::f32);
        NODE_VALIDATION_CHECK(this, fits, "biases");
        return weight;
    }

    Zeros zeros_of(size_t part, const ov::Shape& numbers, const StoredWeight& weight) const {
        const ov::Shape shape = get_input_shape(input_of(part, ZEROS));
        if (get_input_element_type(input_of(part, ZEROS)) == ov::element::f32) {
            NODE_VALIDATION_CHECK(this, shape == numbers && !weight.half_scales, "zeros");
            return Zeros::FLOATS;
        }
        const size_t bits = numbers[2] * size_t(weight.bits);
        NODE_VALIDATION_CHECK(this, bits % 8 == 0 && shape == ov::Shape({numbers[0], numbers[1], bits / 8}), "zeros");
        return Zeros::INTEGERS;
    }

    void read_constants(const ov::TensorVector& inputs) const {
        for (size_t part = 0; part < (has_gate() ? PARTS : GATE); part++) {
            const auto data = [&](size_t kind) { return inputs[input_of(part, kind)].data(); };
            StoredWeight weight = described(part);
            weight.codes = static_cast<const uint8_t*>(data(CODES));
            weight.scales = data(SCALES);
            if (is_given(part, ZEROS)) weight.zero_points = data(ZEROS);
            if (is_given(part, BIAS)) m_shared->biases[part] = static_cast<const float*>(data(BIAS));
            m_shared->weights[part] = ExpertWeights(weight, experts());
        }
        m_shared->is_ready = true;
    }

    // Tokens [first, first + count).
    void compute(const ov::TensorVector& inputs, ov::Tensor& output, size_t first, size_t count) const {
        Shared& all = *m_shared;
        const size_t used = inputs[1].get_shape().back(), width = inputs[0].get_shape().back();
        const bool is_long = inputs[1].get_element_type() == ov::element::i64;
        const void* chosen = inputs[1].data();
        const auto expert_of = [&](size_t i) {
            const size_t at = first * used + i;
            return size_t(is_long ? static_cast<const int64_t*>(chosen)[at] : static_cast<const int32_t*>(chosen)[at]);
        };
        OPENVINO_ASSERT(all.rows.sort(count, used, experts(), expert_of), "a chosen expert is none of ", experts());
        for (const bl_expert_rows& rows : all.rows.list) pack(rows.expert);
        const size_t inner = get_input_shape(input_of(UP, CODES))[1], size = inputs[0].get_element_type().size();
        const Arrays arrays = take(all.rows.count(), width, inner);
        const char* x = static_cast<const char*>(inputs[0].data()) + first * width * size;
        round(type_of(inputs[0].get_element_type()), width, x, arrays.rounded);
        multiply(has_gate() ? std::vector<size_t>{UP, GATE} : std::vector<size_t>{UP}, inner, width, arrays);
        activate(inner, arrays);
        multiply({DOWN}, width, inner, arrays);
        mix(inputs[2], output, first, count, arrays.down);
    }

    void pack(size_t expert) const {
        for (size_t part = 0; part < (has_gate() ? PARTS : GATE); part++)
            if (!m_shared->weights[part].has(expert))
                m_shared->weights[part].pack(expert, [](size_t size, const auto& one) { in_parallel(size, one); });
    }

    Arrays take(size_t rows, size_t width, size_t inner) const {
        const size_t rounded = (bl_rounded_bytes(int(m_levels), rows, std::max(width, inner)) + 63) / 64 * 64;
        const size_t middle = (rows * inner + 15) / 16 * 16, last = rows * width;
        std::vector<uint64_t>& scratch = m_shared->scratch;
        scratch.resize((rounded + 4 * (2 * middle + last) + 64) / 8);
        uint8_t* at = reinterpret_cast<uint8_t*>((reinterpret_cast<size_t>(scratch.data()) + 63) / 64 * 64);
        float* floats = reinterpret_cast<float*>(at + rounded);
        return {at, floats, floats + middle, floats + 2 * middle};
    }

    // Calls part(t, parts), on one thread where there is little to do.
    template <class Part>
    static void in_parts(size_t numbers, const Part& part) {
        const size_t parts = numbers > COMPUTED_BY_ONE ? size_t(parallel_get_max_threads()) : 1;
        in_parallel(parts, [&](size_t begin, size_t end) {
            for (size_t t = begin; t < end; t++) part(t, parts);
        });
    }

    void round(int type, size_t width, const void* x, uint8_t* rounded) const {
        const RoutedRows& rows = m_shared->rows;
        in_parts(rows.count() * width, [&](size_t t, size_t parts) {
            bl_round_experts(rows.list.data(), rows.list.size(), int(m_levels), type, width, x, width,
                             rows.token_of.data(), t, parts, rounded);
        });
    }

    void multiply(const std::vector<size_t>& parts, size_t n, size_t k, const Arrays& arrays) const {
        const std::vector<bl_expert_rows>& list = m_shared->rows.list;
        in_parts(COMPUTED_BY_ONE + 1, [&](size_t t, size_t threads) {
            for (const size_t part : parts)
                bl_multiply_experts(m_shared->weights[part].packed(), list.data(), list.size(), int(m_levels), BL_F32, n,
                                    k, arrays.rounded, t, threads,
                                    part == UP ? arrays.up : part == GATE ? arrays.gate : arrays.down, n);
        });
    }

    // Biases, the activation, and what `down` reads: rounded, in the place of what `up` and `gate` read.
    void activate(size_t inner, const Arrays& arrays) const {
        const bl_activation activation{int32_t(m_activation), m_alpha, m_limit};
        const RoutedRows& rows = m_shared->rows;
        in_parts(rows.count() * inner, [&](size_t t, size_t parts) {
            rows.of_part(t, parts, [&](size_t expert, size_t row) {
                float *up = arrays.up + row * inner, *gate = has_gate() ? arrays.gate + row * inner : nullptr;
                add_bias(UP, expert, inner, up);
                if (gate) add_bias(GATE, expert, inner, gate);
                bl_activate(&activation, inner, gate, up, up);
            });
            bl_round_experts(rows.list.data(), rows.list.size(), int(m_levels), BL_F32, inner, arrays.up, inner, nullptr,
                             t, parts, arrays.rounded);
        });
    }

    void add_bias(size_t part, size_t expert, size_t size, float* row) const {
        const float* bias = m_shared->biases[part];
        if (!bias) return;
        for (size_t i = 0; i < size; i++) row[i] += bias[expert * size + i];
    }

    void mix(const ov::Tensor& weights, ov::Tensor& output, size_t first, size_t count, float* down) const {
        const RoutedRows& rows = m_shared->rows;
        const size_t width = output.get_shape().back(), used = weights.get_shape().back();
        if (m_shared->biases[DOWN])
            in_parts(rows.count() * width, [&](size_t t, size_t parts) {
                rows.of_part(t, parts, [&](size_t expert, size_t row) { add_bias(DOWN, expert, width, down + row * width); });
            });
        const auto part = [&](size_t begin, size_t end) {
            std::vector<float> sum(width);
            for (size_t token = begin; token < end; token++) {
                std::fill(sum.begin(), sum.end(), 0.0f);
                for (size_t j = 0; j < used; j++) {
                    const float weight = number(weights, (first + token) * used + j);
                    const float* row = down + rows.places[token * used + j] * width;
                    for (size_t i = 0; i < width; i++) sum[i] += weight * row[i];
                }
                write(output, (first + token) * width, sum);
            }
        };
        rows.count() * width > COMPUTED_BY_ONE ? in_parallel(count, part) : part(0, count);
    }

    static float number(const ov::Tensor& from, size_t at) {
        const void* data = from.data();
        if (from.get_element_type() == ov::element::f32) return static_cast<const float*>(data)[at];
        if (from.get_element_type() == ov::element::f16) return static_cast<const ov::float16*>(data)[at];
        return static_cast<const ov::bfloat16*>(data)[at];
    }

    static void write(ov::Tensor& to, size_t at, const std::vector<float>& values) {
        const ov::element::Type type = to.get_element_type();
        if (type == ov::element::f32) std::copy(values.begin(), values.end(), static_cast<float*>(to.data()) + at);
        if (type == ov::element::f16) std::copy(values.begin(), values.end(), static_cast<ov::float16*>(to.data()) + at);
        if (type == ov::element::bf16) std::copy(values.begin(), values.end(), static_cast<ov::bfloat16*>(to.data()) + at);
    }

    int64_t m_levels = 0, m_activation = 0, m_table = 0;
    float m_alpha = 1, m_limit = 0;
    std::vector<int64_t> m_bits, m_blocks;
    std::shared_ptr<Shared> m_shared = std::make_shared<Shared>();
};

}  // namespace braid

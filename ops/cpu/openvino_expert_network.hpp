// What OpenVINO's operators of routed experts share: a layer's networks, by the kernels of block_linear.h.
//
// mixed[t] = the sum over j of weights[t, j] * down(activation(gate(x), up(x))), x = hidden_states[t], of the
// expert chosen[t, j].  A token's result is the same to the last bit beside any other tokens.
//
// The first inputs: hidden_states [.., tokens, width], f32, bf16 or f16; chosen [.., tokens, used], i64 or i32;
// weights, as chosen, f32, bf16 or f16.
//
// Attributes: levels, of int8 numbers that stand for an activation, 1 or 2; activation, a number of block_linear.h,
// with alpha and limit.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "block_linear.h"
#include "openvino/op/op.hpp"
#include "openvino_threads.hpp"
#include "routed_rows.hpp"

namespace braid {

// Nanoseconds that layers of routed experts took in this process so far, by the clock.
inline std::atomic<uint64_t> experts_ns{0};

class ExpertNetwork : public ov::op::Op {
public:
    using Op::Op;

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        static thread_local Scratch own;
        const auto begin = std::chrono::steady_clock::now();
        const size_t used = inputs[1].get_shape().back(), tokens = inputs[1].get_size() / used;
        const size_t step = std::max<size_t>(1, MOST_ROWS / used);
        Call call{inputs, sizes(), own};
        for (size_t first = 0; first < tokens; first += step)
            compute(call, outputs[0], first, std::min(step, tokens - first));
        experts_ns += uint64_t(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
        return true;
    }

protected:
    static constexpr size_t UP = 0, DOWN = 1, GATE = 2, PARTS = 3;
    static constexpr size_t ROUTED = 3;  // inputs before those of the operator's own

    struct Sizes {
        size_t experts, width, inner;
        bool has_gate;

        size_t parts() const { return has_gate ? PARTS : GATE; }
        size_t rows(size_t part) const { return part == DOWN ? width : inner; }
        size_t columns(size_t part) const { return part == DOWN ? inner : width; }
    };

    virtual Sizes sizes() const = 0;

    // Packs the weights of the experts of a list, of all parts, where they are not packed yet.  From any thread.
    virtual void prepare(const ov::TensorVector& inputs, const std::vector<bl_expert_rows>& list) const = 0;

    // By expert; of those that were prepared.
    virtual const bl_weight* weights(size_t part) const = 0;

    // [experts, rows of the part]; null where there are none.
    virtual const float* biases(size_t part, const ov::TensorVector& inputs) const = 0;

    // Checks the first inputs, and sets the type and shape of the result.
    void infer_mixed(const Sizes& all) {
        NODE_VALIDATION_CHECK(this, m_levels == 1 || m_levels == 2, "levels is ", m_levels);
        NODE_VALIDATION_CHECK(this, m_activation >= BL_SILU && m_activation <= BL_CLAMPED, "no such activation");
        NODE_VALIDATION_CHECK(this, all.has_gate || m_activation != BL_CLAMPED, "no gate");
        const ov::PartialShape& shape = get_input_partial_shape(0);
        NODE_VALIDATION_CHECK(this, shape.rank().is_static() && shape.size(), "hidden states of an unknown rank");
        const ov::Dimension width = shape[shape.size() - 1];
        NODE_VALIDATION_CHECK(this, width.is_static() && size_t(width.get_length()) == all.width, "width is ", width);
        const ov::element::Type chosen = get_input_element_type(1);
        NODE_VALIDATION_CHECK(this, chosen == ov::element::i64 || chosen == ov::element::i32, chosen);
        for (const size_t input : {0, 2}) {
            const ov::element::Type type = get_input_element_type(input);
            NODE_VALIDATION_CHECK(
                this, type == ov::element::f32 || type == ov::element::bf16 || type == ov::element::f16, type);
        }
        set_output_type(0, get_input_element_type(0), shape);
    }

    // Whether a bias [experts, rows] is given, which else has less than two axes.
    bool has_bias(size_t input, size_t experts, size_t rows) const {
        const ov::PartialShape& shape = get_input_partial_shape(input);
        if (shape.rank().is_static() && shape.size() < 2) return false;
        NODE_VALIDATION_CHECK(this, shape == ov::PartialShape({int64_t(experts), int64_t(rows)}) &&
                                        get_input_element_type(input) == ov::element::f32, "biases");
        return true;
    }

    void copy_settings(ExpertNetwork& to) const {
        to.m_levels = m_levels, to.m_activation = m_activation;
        to.m_alpha = m_alpha, to.m_limit = m_limit;
    }

    void visit_settings(ov::AttributeVisitor& visitor) {
        visitor.on_attribute("levels", m_levels);
        visitor.on_attribute("activation", m_activation);
        visitor.on_attribute("alpha", m_alpha);
        visitor.on_attribute("limit", m_limit);
    }

private:
    static constexpr size_t MOST_ROWS = 4096;             // that are computed together
    static constexpr size_t COMPUTED_BY_ONE = 32 * 1024;  // numbers that one thread computes sooner than several would

    // What a thread keeps for all layers of all models: they are computed one after the other.
    struct Scratch {
        RoutedRows rows;
        std::vector<uint64_t> memory;
    };

    struct Call {
        const ov::TensorVector& inputs;
        const Sizes sizes;
        Scratch& scratch;
        uint8_t* rounded = nullptr;  // activations of one of both kinds
        float *up = nullptr, *gate = nullptr, *down = nullptr;

        const RoutedRows& rows() const { return scratch.rows; }
        float* result(size_t part) const { return part == UP ? up : part == GATE ? gate : down; }
    };

    // Tokens [first, first + count).
    void compute(Call& call, ov::Tensor& output, size_t first, size_t count) const {
        const ov::TensorVector& inputs = call.inputs;
        const size_t used = inputs[1].get_shape().back(), width = call.sizes.width;
        const bool is_long = inputs[1].get_element_type() == ov::element::i64;
        const void* chosen = inputs[1].data();
        const auto expert_of = [&](size_t i) {
            const size_t at = first * used + i;
            return size_t(is_long ? static_cast<const int64_t*>(chosen)[at] : static_cast<const int32_t*>(chosen)[at]);
        };
        const size_t experts = call.sizes.experts;
        OPENVINO_ASSERT(call.scratch.rows.sort(count, used, experts, expert_of), "a chosen expert is none of ", experts);
        prepare(inputs, call.rows().list);
        take(call);
        const size_t size = inputs[0].get_element_type().size();
        const char* x = static_cast<const char*>(inputs[0].data()) + first * width * size;
        round(call, type_of(inputs[0].get_element_type()), x);
        multiply(call, UP);
        if (call.sizes.has_gate) multiply(call, GATE);
        activate(call);
        multiply(call, DOWN);
        mix(call, output, first, count);
    }

    void take(Call& call) const {
        const size_t rows = call.rows().count(), width = call.sizes.width, inner = call.sizes.inner;
        const size_t rounded = (bl_rounded_bytes(int(m_levels), rows, std::max(width, inner)) + 63) / 64 * 64;
        const size_t middle = (rows * inner + 15) / 16 * 16, last = rows * width;
        std::vector<uint64_t>& memory = call.scratch.memory;
        const size_t size = (rounded + 4 * (2 * middle + last) + 64) / 8;
        if (memory.size() < size) memory.resize(size);
        call.rounded = reinterpret_cast<uint8_t*>((reinterpret_cast<size_t>(memory.data()) + 63) / 64 * 64);
        call.up = reinterpret_cast<float*>(call.rounded + rounded);
        call.gate = call.up + middle;
        call.down = call.gate + middle;
    }

    // Calls part(t, parts), on one thread where there is little to do.
    template <class Part>
    static void in_parts(size_t numbers, const Part& part) {
        const size_t parts = numbers > COMPUTED_BY_ONE ? size_t(parallel_get_max_threads()) : 1;
        in_parallel(parts, [&](size_t begin, size_t end) {
            for (size_t t = begin; t < end; t++) part(t, parts);
        });
    }

    void round(const Call& call, int type, const void* x) const {
        const RoutedRows& rows = call.rows();
        const size_t width = call.sizes.width;
        in_parts(rows.count() * width, [&](size_t t, size_t parts) {
            bl_round_experts(rows.list.data(), rows.list.size(), int(m_levels), type, width, x, width,
                             rows.token_of.data(), t, parts, call.rounded);
        });
    }

    void multiply(const Call& call, size_t part) const {
        const std::vector<bl_expert_rows>& list = call.rows().list;
        const size_t n = call.sizes.rows(part), k = call.sizes.columns(part);
        const bl_weight* packed = weights(part);
        in_parts(COMPUTED_BY_ONE + 1, [&](size_t t, size_t threads) {
            bl_multiply_experts(packed, list.data(), list.size(), int(m_levels), BL_F32, n, k, call.rounded, t, threads,
                                call.result(part), n);
        });
    }

    // Biases, the activation, and what `down` reads: rounded, in the place of what `up` and `gate` read.
    void activate(const Call& call) const {
        const bl_activation activation{int32_t(m_activation), m_alpha, m_limit};
        const RoutedRows& rows = call.rows();
        const size_t inner = call.sizes.inner;
        const float *up_bias = biases(UP, call.inputs), *gate_bias = biases(GATE, call.inputs);
        in_parts(rows.count() * inner, [&](size_t t, size_t parts) {
            rows.of_part(t, parts, [&](size_t expert, size_t row) {
                float *up = call.up + row * inner, *gate = call.sizes.has_gate ? call.gate + row * inner : nullptr;
                add_bias(up_bias, expert, inner, up);
                if (gate) add_bias(gate_bias, expert, inner, gate);
                bl_activate(&activation, inner, gate, up, up);
            });
            bl_round_experts(rows.list.data(), rows.list.size(), int(m_levels), BL_F32, inner, call.up, inner, nullptr,
                             t, parts, call.rounded);
        });
    }

    static void add_bias(const float* bias, size_t expert, size_t size, float* row) {
        if (!bias) return;
        for (size_t i = 0; i < size; i++) row[i] += bias[expert * size + i];
    }

    void mix(const Call& call, ov::Tensor& output, size_t first, size_t count) const {
        const RoutedRows& rows = call.rows();
        const ov::Tensor& weights = call.inputs[2];
        const size_t width = call.sizes.width, used = weights.get_shape().back();
        if (const float* bias = biases(DOWN, call.inputs))
            in_parts(rows.count() * width, [&](size_t t, size_t parts) {
                rows.of_part(t, parts,
                             [&](size_t expert, size_t row) { add_bias(bias, expert, width, call.down + row * width); });
            });
        const auto part = [&](size_t begin, size_t end) {
            std::vector<float> sum(width);
            for (size_t token = begin; token < end; token++) {
                std::fill(sum.begin(), sum.end(), 0.0f);
                for (size_t j = 0; j < used; j++) {
                    const float weight = number(weights, (first + token) * used + j);
                    const float* row = call.down + rows.places[token * used + j] * width;
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

    int64_t m_levels = 0, m_activation = 0;
    float m_alpha = 1, m_limit = 0;
};

}  // namespace braid

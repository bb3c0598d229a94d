// What OpenVINO's operators of routed experts share: a layer's networks, by the kernels of block_linear.h.
//
// mixed[t] = the sum over j of weights[t, j] * down(activation(gate(x), up(x))), x = hidden_states[t], of the
// expert chosen[t, j].  A token's result is the same to the last bit beside any other tokens.
//
// The first inputs: hidden_states [.., tokens, width], f32, bf16 or f16; chosen [.., tokens, used], i64 or i32;
// weights, as chosen, f32, bf16 or f16.  Where the router is part of it: hidden_states in f32; the router's weight,
// f32 [width, experts and more up to a multiple of 16], or with router_given its outputs, f32 [.., tokens, experts];
// and its correction, f32 [experts], or a scalar: none.
//
// Attributes: levels, of int8 numbers that stand for an activation, 1 or 2; activation, a number of block_linear.h,
// with alpha and limit; those of Router with router_ before their names, and router_given.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "block_linear.h"
#include "expert_router.hpp"
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
        const size_t used = m_router.used ? size_t(m_router.used) : inputs[1].get_shape().back();
        Call call{inputs, sizes(), own, used};
        const size_t tokens = inputs[0].get_size() / call.sizes.width;
        check_sizes(call, tokens);
        const size_t step = std::max<size_t>(1, MOST_ROWS / used);
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
        m_router.used ? check_router(all) : check_chosen();
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
        to.m_alpha = m_alpha, to.m_limit = m_limit, to.m_router = m_router;
        to.m_router_given = m_router_given, to.m_is_checked = m_is_checked;
    }

    void visit_settings(ov::AttributeVisitor& visitor) {
        visitor.on_attribute("levels", m_levels);
        visitor.on_attribute("activation", m_activation);
        visitor.on_attribute("alpha", m_alpha);
        visitor.on_attribute("limit", m_limit);
        visitor.on_attribute("router_used", m_router.used);
        visitor.on_attribute("router_given", m_router_given);
        visitor.on_attribute("router_scores", m_router.scores);
        visitor.on_attribute("router_of_chosen", m_router.of_chosen);
        visitor.on_attribute("router_sums_to_one", m_router.sums_to_one);
        visitor.on_attribute("router_least", m_router.least);
        visitor.on_attribute("router_more", m_router.more);
        visitor.on_attribute("router_factor", m_router.factor);
    }

private:
    static constexpr size_t COLUMNS = 16;      // of a router's weight, which are computed together
    static constexpr size_t FEW_TOKENS = 64;   // of which threads share columns, and not rows
    static constexpr size_t MOST_ROWS = 4096;             // that are computed together
    static constexpr size_t COMPUTED_BY_ONE = 32 * 1024;  // numbers that one thread computes sooner than several would

    // What a thread keeps for all layers of all models: they are computed one after the other.
    struct Scratch {
        RoutedRows rows;
        std::vector<int64_t> chosen;  // of each token
        std::vector<float> weights, outputs;
        std::vector<uint64_t> memory;
    };

    struct Call {
        const ov::TensorVector& inputs;
        const Sizes sizes;
        Scratch& scratch;
        const size_t used;
        uint8_t* rounded = nullptr;  // activations of one of both kinds
        float *hidden = nullptr, *down = nullptr;

        const RoutedRows& rows() const { return scratch.rows; }
    };

    // What the shapes of a graph leave open.
    void check_sizes(const Call& call, size_t tokens) const {
        const size_t per_token = m_router_given ? call.sizes.experts : call.used;
        OPENVINO_ASSERT(call.used, "no expert of a token");
        if (m_router.used && !m_router_given) return;
        OPENVINO_ASSERT(call.inputs[1].get_size() == tokens * per_token, "routed experts of other tokens");
        OPENVINO_ASSERT(m_router.used || call.inputs[2].get_size() == tokens * per_token, "weights of other tokens");
    }

    // Tokens [first, first + count).
    void compute(Call& call, ov::Tensor& output, size_t first, size_t count) const {
        const ov::TensorVector& inputs = call.inputs;
        const size_t width = call.sizes.width, size = inputs[0].get_element_type().size();
        const void* x = static_cast<const char*>(inputs[0].data()) + first * width * size;
        m_router.used ? route(call, static_cast<const float*>(x), first, count) : read_chosen(call, first, count);
        const std::vector<int64_t>& chosen = call.scratch.chosen;
        const size_t experts = call.sizes.experts;
        const auto expert_of = [&](size_t i) { return size_t(chosen[i]); };
        OPENVINO_ASSERT(call.scratch.rows.sort(count, call.used, experts, expert_of), "a chosen expert is none of ", experts);
        prepare(inputs, call.rows().list);
        take(call);
        const RoutedRows& rows = call.rows();
        round(call, type_of(inputs[0].get_element_type()), x, width, rows.token_of.data());
        multiply_hidden(call);
        round(call, BL_F32, call.hidden, call.sizes.inner, nullptr);
        multiply_down(call);
        mix(call, output, first, count);
    }

    // The experts of tokens [first, first + count), whose rows are x, and their weights, by the router.
    void route(Call& call, const float* x, size_t first, size_t count) const {
        Scratch& scratch = call.scratch;
        const size_t columns = call.inputs[1].get_shape().back();
        const float* numbers = static_cast<const float*>(call.inputs[1].data());
        scratch.outputs.resize(std::max(scratch.outputs.size(), count * columns));
        float* outputs = scratch.outputs.data();
        m_router_given ? void(std::copy_n(numbers + first * columns, count * columns, outputs))
                       : multiply_router(call, x, numbers, count, outputs);
        const ov::Tensor& added = call.inputs[2];
        const float* correction = added.get_shape().empty() ? nullptr : static_cast<const float*>(added.data());
        scratch.chosen.resize(count * call.used), scratch.weights.resize(count * call.used);
        const auto choose = [&](size_t begin, size_t end) {
            for (size_t token = begin; token < end; token++)
                m_router.choose(call.sizes.experts, outputs + token * columns, correction,
                                scratch.chosen.data() + token * call.used, scratch.weights.data() + token * call.used);
        };
        count > FEW_TOKENS ? in_parallel(count, choose) : choose(0, count);
    }

    static void multiply_router(const Call& call, const float* x, const float* weight, size_t count, float* outputs) {
        const size_t width = call.sizes.width, columns = call.inputs[1].get_shape().back(), blocks = columns / COLUMNS;
        if (count > FEW_TOKENS)
            return in_parallel(count, [&](size_t begin, size_t end) {
                bl_multiply_floats(end - begin, columns, width, x + begin * width, width, weight, 0, blocks,
                                   outputs + begin * columns);
            });
        in_parallel(blocks, [&](size_t begin, size_t end) {
            bl_multiply_floats(count, columns, width, x, width, weight, begin, end, outputs);
        });
    }

    void read_chosen(Call& call, size_t first, size_t count) const {
        const ov::Tensor& chosen = call.inputs[1];
        Scratch& scratch = call.scratch;
        scratch.chosen.resize(count * call.used), scratch.weights.resize(count * call.used);
        const bool is_long = chosen.get_element_type() == ov::element::i64;
        for (size_t i = 0; i < count * call.used; i++) {
            const size_t at = first * call.used + i;
            scratch.chosen[i] = is_long ? static_cast<const int64_t*>(chosen.data())[at]
                                        : static_cast<const int32_t*>(chosen.data())[at];
            scratch.weights[i] = number(call.inputs[2], at);
        }
    }

    void take(Call& call) const {
        const size_t rows = call.rows().count(), width = call.sizes.width, inner = call.sizes.inner;
        const size_t rounded = (bl_rounded_bytes(int(m_levels), rows, std::max(width, inner)) + 63) / 64 * 64;
        const size_t hidden = (rows * inner + 15) / 16 * 16, last = rows * width;
        std::vector<uint64_t>& memory = call.scratch.memory;
        const size_t size = (rounded + 4 * (hidden + last) + 64) / 8;
        if (memory.size() < size) memory.resize(size);
        call.rounded = reinterpret_cast<uint8_t*>((reinterpret_cast<size_t>(memory.data()) + 63) / 64 * 64);
        call.hidden = reinterpret_cast<float*>(call.rounded + rounded);
        call.down = call.hidden + hidden;
    }

    // Calls part(t, parts), on one thread where there is little to do.
    template <class Part>
    static void in_parts(size_t numbers, const Part& part) {
        const size_t parts = numbers > COMPUTED_BY_ONE ? size_t(parallel_get_max_threads()) : 1;
        in_parallel(parts, [&](size_t begin, size_t end) {
            for (size_t t = begin; t < end; t++) part(t, parts);
        });
    }

    // Sorted row r is row tokens[r] of x, or row r where `tokens` is null.
    void round(const Call& call, int type, const void* x, size_t k, const int64_t* tokens) const {
        const RoutedRows& rows = call.rows();
        in_parts(rows.count() * k, [&](size_t t, size_t parts) {
            bl_round_experts(rows.list.data(), rows.list.size(), int(m_levels), type, k, x, k, tokens, t, parts,
                             call.rounded);
        });
    }

    void multiply_hidden(const Call& call) const {
        const std::vector<bl_expert_rows>& list = call.rows().list;
        const size_t n = call.sizes.inner, k = call.sizes.width;
        const bl_hidden layers{{int32_t(m_activation), m_alpha, m_limit},
                               call.sizes.has_gate ? weights(GATE) : nullptr,
                               weights(UP),
                               call.sizes.has_gate ? biases(GATE, call.inputs) : nullptr,
                               biases(UP, call.inputs)};
        in_parts(COMPUTED_BY_ONE + 1, [&](size_t t, size_t parts) {
            bl_multiply_hidden_experts(&layers, list.data(), list.size(), int(m_levels), n, k, call.rounded, t, parts,
                                       call.hidden, n);
        });
    }

    void multiply_down(const Call& call) const {
        const std::vector<bl_expert_rows>& list = call.rows().list;
        const size_t n = call.sizes.width, k = call.sizes.inner;
        in_parts(COMPUTED_BY_ONE + 1, [&](size_t t, size_t parts) {
            bl_multiply_experts(weights(DOWN), list.data(), list.size(), int(m_levels), BL_F32, n, k, call.rounded, t,
                                parts, call.down, n);
        });
    }

    static void add_bias(const float* bias, size_t expert, size_t size, float* row) {
        if (!bias) return;
        for (size_t i = 0; i < size; i++) row[i] += bias[expert * size + i];
    }

    void mix(const Call& call, ov::Tensor& output, size_t first, size_t count) const {
        const RoutedRows& rows = call.rows();
        const std::vector<float>& weights = call.scratch.weights;
        const size_t width = call.sizes.width, used = call.used;
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
                    const float weight = weights[token * used + j];
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

    void check_chosen() const {
        const ov::element::Type chosen = get_input_element_type(1);
        NODE_VALIDATION_CHECK(this, chosen == ov::element::i64 || chosen == ov::element::i32, chosen);
        for (const size_t input : {0, 2}) {
            const ov::element::Type type = get_input_element_type(input);
            NODE_VALIDATION_CHECK(
                this, type == ov::element::f32 || type == ov::element::bf16 || type == ov::element::f16, type);
        }
        NODE_VALIDATION_CHECK(this, get_input_partial_shape(1).compatible(get_input_partial_shape(2)),
                              "chosen experts and their weights differ in shape");
    }

    void check_router(const Sizes& all) const {
        for (const size_t input : {0, 1, 2})
            NODE_VALIDATION_CHECK(this, get_input_element_type(input) == ov::element::f32, "a router of other numbers");
        const ov::PartialShape& shape = get_input_partial_shape(1);
        NODE_VALIDATION_CHECK(this, shape.rank().is_static() && shape.size() > 1, "the router's input");
        const ov::Dimension last = shape[shape.size() - 1];
        const size_t columns = m_router_given ? all.experts : (all.experts + COLUMNS - 1) / COLUMNS * COLUMNS;
        NODE_VALIDATION_CHECK(this, last.is_static() && size_t(last.get_length()) == columns, "outputs of a router: ", shape);
        NODE_VALIDATION_CHECK(this, m_router_given || shape == ov::PartialShape({int64_t(all.width), int64_t(columns)}),
                              "the router's weight");
        const ov::PartialShape& correction = get_input_partial_shape(2);
        NODE_VALIDATION_CHECK(this, correction == ov::PartialShape({}) || correction == ov::PartialShape({int64_t(all.experts)}),
                              "the router's correction");
        NODE_VALIDATION_CHECK(this, m_router.used > 0 && size_t(m_router.used) <= all.experts, "experts of a token");
        NODE_VALIDATION_CHECK(this, m_router.scores >= PLAIN && m_router.scores <= SIGMOID, "no such scores");
    }

    int64_t m_levels = 0, m_activation = 0;
    float m_alpha = 1, m_limit = 0;
    Router m_router;
    int64_t m_router_given = 0;

protected:
    // Whether the weights were checked, of this node or of one that it is a copy of: devices copy a node at each
    // evaluation, to find the shape of its result.
    bool m_is_checked = false;
};

}  // namespace braid

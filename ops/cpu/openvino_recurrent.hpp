// OpenVINO's operators braid.ShortConv, GatedDeltaNet and Mamba2: recurrent layers over tables of states.
//
// Inputs are those of OpenVINO's own paged operators, in their order, each float32 with tokens as the first axis:
//     ShortConv      rows, states, weight [channels, 1, kernel], bias [channels] or [0]
//     GatedDeltaNet  query, key, value, states, decay, beta
//     Mamba2         decay [heads], steps, written, values, read, states
// and then the step, int32: where the tokens of sequences begin, rows of states, where those of sequences begin,
// tokens before the step, intervals.  States are read and written in place, as the memory of this input.
#pragma once

#include "openvino/op/op.hpp"
#include "openvino_threads.hpp"
#include "recurrent.h"

namespace braid {

class RecurrentLayer : public ov::op::Op {
public:
    using Op::Op;

    bool has_evaluate() const override { return true; }

protected:
    static constexpr size_t STEP_INPUTS = 5;

    // Checks the inputs; the result has the type and shape of input `values`.
    void infer(size_t own_inputs, size_t values, size_t states, size_t state_axes) {
        NODE_VALIDATION_CHECK(this, get_input_size() == own_inputs + STEP_INPUTS, get_input_size(), " inputs");
        for (size_t i = 0; i < get_input_size(); i++) {
            const ov::element::Type wanted = i < own_inputs ? ov::element::f32 : ov::element::i32;
            NODE_VALIDATION_CHECK(this, get_input_element_type(i) == wanted, "input ", i, " is not ", wanted);
        }
        const ov::Rank rank = get_input_partial_shape(states).rank();
        NODE_VALIDATION_CHECK(this, rank.is_static() && size_t(rank.get_length()) == state_axes, "states");
        set_output_type(0, ov::element::f32, get_input_partial_shape(values));
    }

    static const float* floats(const ov::Tensor& tensor) { return static_cast<const float*>(tensor.data()); }

    static float* written(const ov::Tensor& tensor) {
        return static_cast<float*>(const_cast<void*>(static_cast<const void*>(tensor.data())));
    }

    void require(bool holds, const char* problem) const { OPENVINO_ASSERT(holds, get_type_info().name, ": ", problem); }

    void require_shape(const ov::Tensor& tensor, const ov::Shape& wanted) const {
        OPENVINO_ASSERT(tensor.get_shape() == wanted, get_type_info().name, ": ", tensor.get_shape(), " is not ", wanted);
    }

    // Calls run(step, part, parts) for all parts, on the threads of the inference.
    template <class Run>
    bool in_parts(const ov::TensorVector& inputs, size_t tokens, size_t num_rows, const Run& run) const {
        const ov::Tensor* at = inputs.data() + inputs.size() - STEP_INPUTS;
        const auto numbers = [&](size_t i) { return static_cast<const int32_t*>(at[i].data()); };
        const size_t sequences = at[3].get_size();
        require(at[0].get_size() == sequences + 1 && at[2].get_size() == sequences + 1, "sequences");
        require(at[4].get_size() == sequences, "sequences");
        const rl_step step{sequences, numbers(0), numbers(1), numbers(2), numbers(3), numbers(4)};
        const char* problem = rl_check(&step, tokens, num_rows, at[1].get_size());
        require(!problem, problem ? problem : "");
        const size_t parts = size_t(parallel_get_max_threads());
        in_parallel(parts, [&](size_t begin, size_t end) {
            for (size_t part = begin; part < end; part++) run(step, part, parts);
        });
        return true;
    }

    template <class Node>
    static std::shared_ptr<Node> copy_of(const ov::OutputVector& inputs) {
        auto made = std::make_shared<Node>();
        made->set_arguments(inputs);
        return made;
    }
};

class ShortConv : public RecurrentLayer {
public:
    OPENVINO_OP("ShortConv", "braid");

    void validate_and_infer_types() override { infer(4, 0, 1, 3); }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        const ov::Shape rows = inputs[0].get_shape(), states = inputs[1].get_shape();
        require(rows.size() == 2 && states[1] == rows[1] && states[2], "sizes");
        require_shape(inputs[2], {rows[1], 1, states[2]});
        if (inputs[3].get_size()) require_shape(inputs[3], {rows[1]});
        const float* bias = inputs[3].get_size() ? floats(inputs[3]) : nullptr;
        const rl_short_conv layer{rows[1], states[2],          floats(inputs[0]),  floats(inputs[2]),
                                  bias,    written(inputs[1]), written(outputs[0])};
        return in_parts(inputs, rows[0], states[0], [&](const rl_step& step, size_t part, size_t parts) {
            rl_convolve(&layer, &step, part, parts);
        });
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = copy_of<ShortConv>(inputs);
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor&) override { return true; }
};

// Attribute: epsilon, of the lengths of queries and keys.
class GatedDeltaNet : public RecurrentLayer {
public:
    OPENVINO_OP("GatedDeltaNet", "braid");

    void validate_and_infer_types() override { infer(6, 2, 3, 4); }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        const ov::Shape query = inputs[0].get_shape(), value = inputs[2].get_shape(), states = inputs[3].get_shape();
        require(query.size() == 3 && query[1] && value.size() == 3 && value[1] % query[1] == 0, "heads");
        require_shape(inputs[1], query);
        require_shape(inputs[2], {query[0], value[1], value[2]});
        require_shape(inputs[3], {states[0], value[1], value[2], query[2]});
        require_shape(inputs[4], {query[0], value[1]});
        require_shape(inputs[5], {query[0], value[1]});
        const rl_delta_net layer{query[1],           query[2],           value[1],           value[2],
                                 m_epsilon,          floats(inputs[0]),  floats(inputs[1]),  floats(inputs[2]),
                                 floats(inputs[4]),  floats(inputs[5]),  written(inputs[3]), written(outputs[0])};
        return in_parts(inputs, query[0], states[0], [&](const rl_step& step, size_t part, size_t parts) {
            rl_run_delta_net(&layer, &step, part, parts);
        });
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = copy_of<GatedDeltaNet>(inputs);
        made->m_epsilon = m_epsilon;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("epsilon", m_epsilon);
        return true;
    }

private:
    float m_epsilon = 0.0f;
};

class Mamba2 : public RecurrentLayer {
public:
    OPENVINO_OP("Mamba2", "braid");

    void validate_and_infer_types() override { infer(6, 3, 5, 4); }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        const ov::Shape values = inputs[3].get_shape(), read = inputs[4].get_shape(), states = inputs[5].get_shape();
        require(read.size() == 3 && read[1] && values.size() == 3 && values[1] % read[1] == 0, "heads");
        require_shape(inputs[0], {values[1]});
        require_shape(inputs[1], {values[0], values[1]});
        require_shape(inputs[2], read);
        require_shape(inputs[4], {values[0], read[1], read[2]});
        require_shape(inputs[5], {states[0], values[1], values[2], read[2]});
        const rl_mamba2 layer{read[1],           read[2],           values[1],          values[2],
                              floats(inputs[3]), floats(inputs[1]), floats(inputs[2]),  floats(inputs[4]),
                              floats(inputs[0]), written(inputs[5]), written(outputs[0])};
        return in_parts(inputs, values[0], states[0], [&](const rl_step& step, size_t part, size_t parts) {
            rl_run_mamba2(&layer, &step, part, parts);
        });
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = copy_of<Mamba2>(inputs);
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor&) override { return true; }
};

}  // namespace braid

"""The node of routed experts: what it means, and how it is checked."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from mixtures import Form, Mixture

from pipelines.inference.backends.onnx.expert_linears import use_expert_linears
from pipelines.inference.backends.onnx.experts import check_experts
from pipelines.inference.backends.onnxruntime.widened_e2m1 import widen_e2m1
from pipelines.inference.contracts.device_errors import ModelError

MIXTURES = {
    "four bits": Mixture(),
    "float zeros": Mixture(forms={"": Form(zeros="float32")}),
    "packed zeros": Mixture(forms={"": Form(block=16, zeros="packed")}),
    "an odd number of packed zeros": Mixture(forms={"": Form(zeros="packed")}),
    "two and eight bits": Mixture(forms={"": Form(8), "down": Form(2, 16)}),
    "half scales": Mixture(forms={"": Form(scales="float16")}),
    "floats": Mixture(forms={"": Form(0), "up": Form(0, floats="float16")}),
    "e2m1 and eight bits": Mixture(table="e2m1", forms={"": Form(), "down": Form(8)}),
    "clamped with biases": Mixture(activation="clamped", has_bias=True),
    "without gate": Mixture(activation="relu2", has_gate=False),
    "gelu": Mixture(activation="gelu"),
    "gelu_tanh": Mixture(activation="gelu_tanh", has_bias=True),
}


def run(mixture, given):
    """By ONNX Runtime's own operators."""
    model = mixture.model()
    num_codes = sum(mixture.form(name).bits > 0 for name in ("up", "down", *["gate"] * mixture.has_gate))
    assert use_expert_linears(model.graph) == (1, num_codes * mixture.experts)
    widen_e2m1(model.graph)
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString())
    return session.run(None, given)[0]


@pytest.mark.parametrize("name", MIXTURES)
def test_linear_layers_of_experts_compute_what_the_node_means(name):
    mixture = MIXTURES[name]
    for tokens in (1, 7):
        given = mixture.inputs(tokens)
        expected = mixture.expected(**given)
        np.testing.assert_allclose(run(mixture, given), expected, atol=3e-5 * expected.std(), rtol=1e-4)


def test_weights_of_an_expert_stay_in_the_file(tmp_path):
    mixture = Mixture()
    ir.save(mixture.model(), tmp_path / "model.onnx", external_data="data")
    model = ir.load(tmp_path / "model.onnx")
    use_expert_linears(model.graph)
    weights = [value.const_value for value in model.graph.initializers.values()]
    codes = [weight for weight in weights if weight.dtype == ir.DataType.UINT8]
    assert len(codes) == 3 * mixture.experts
    assert all(isinstance(weight, ir.ExternalTensor) for weight in codes)


def without(name):
    return lambda node: node.attributes.pop(name)


def with_value(name, value):
    return lambda node: node.attributes.add(ir.convenience.convert_attribute(name, value))


def with_shape(place, *shape):
    def change(node):
        node.inputs[place].shape = ir.Shape(shape)

    return change


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (without("activation"), "lacks .*activation"),
        (with_value("more", 1), "has .*more"),
        (with_value("activation", "tanh"), "activation tanh"),
        (with_value("table", "e5m2"), "table e5m2"),
        (with_value("up_bits", 5), "up of 5 bits"),
        (with_value("limit", -1.0), "limit -1"),
        (with_shape(3, 6, 96, 3, 16), r"for \(6, 96, 96\)"),
        (with_shape(4, 6, 96, 3), "up_scales"),
        (with_shape(7, 5, 64, 3, 16), r"down \(5, 64, 96\)"),
        (with_value("layer", -1), "numbered"),
    ],
)
def test_nodes_that_do_not_follow_the_format_are_refused(change, fault):
    model = Mixture().model()
    check_experts(model.graph)
    change(model.graph[0])
    with pytest.raises(ModelError, match=fault):
        check_experts(model.graph)


def test_a_clamped_activation_needs_a_gate():
    with pytest.raises(ModelError, match="without gate"):
        check_experts(Mixture(activation="clamped", has_gate=False).model().graph)

"""Routed experts on OpenVINO, a linear layer for each: what they compute, and that weights stay narrow."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from mixtures import Form, Mixture
from paged_mixtures import paged, run

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
MIXTURES = {
    "four bits": (Mixture(), "u4"),
    "float zeros": (Mixture(forms={"": Form(zeros="float32")}), "u4"),
    "packed zeros": (Mixture(forms={"": Form(block=16, zeros="packed")}), "u4"),
    "an odd number of packed zeros": (Mixture(forms={"": Form(zeros="packed")}), None),
    "two bits": (Mixture(inner=128, forms={"": Form(2, 16)}), "u2"),
    "eight bits": (Mixture(forms={"": Form(8, 16, "packed")}), "u8"),
    "half scales": (Mixture(forms={"": Form(scales="float16")}), "u4"),
    "floats": (Mixture(forms={"": Form(0)}), "f32"),
    "halves": (Mixture(forms={"": Form(0, floats="float16")}), "f16"),
    "e2m1": (Mixture(table="e2m1"), "f4e2m1"),
    "clamped with biases": (Mixture(activation="clamped", has_bias=True), "u4"),
    "without gate": (Mixture(activation="relu2", has_gate=False), "u4"),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_linear_layers_of_experts_compute_what_the_node_means(name, tmp_path):
    mixture, kind = MIXTURES[name]
    model, held, experts = paged(mixture, tmp_path)
    assert (experts.by_kernels, experts.by_linears) == (0, 1)
    types = {
        node.get_element_type().to_string() for node in model.get_ops() if node.get_type_name() == "Constant"
    }
    assert kind is None or kind in types
    compiled = ov.Core().compile_model(model, "CPU", EXACT)
    assert experts.num_unpacked(compiled) == 0
    for tokens in (1, 7):
        inputs = mixture.inputs(tokens)
        result = run(compiled, inputs)
        expected = mixture.expected(**inputs)
        np.testing.assert_allclose(result, expected, atol=3e-5 * expected.std(), rtol=1e-4)
    assert held.files


def test_weights_are_read_in_the_file(tmp_path):
    model, held, _ = paged(Mixture(width=128, inner=256), tmp_path)
    (file,) = held.files.values()
    first = file.bytes.ctypes.data
    codes = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
    codes = [node for node in codes if node.get_element_type() == ov.Type.u4 and node.get_byte_size() > 1]
    assert len(codes) == 3 * 6
    assert all(0 <= node.data.ctypes.data - first < len(file.bytes) for node in codes)


def test_weights_that_openvino_unpacks_are_counted(tmp_path):
    """Here: since they are results of the graph, too, as nothing of ours is."""
    model, _held, experts = paged(Mixture(), tmp_path)
    linears = [node for node in model.get_ops() if node.get_type_name() == "MatMul"]
    for node in linears[:4]:
        model.add_results([ov.opset13.result(node.input_value(1))])
    assert experts.num_unpacked(ov.Core().compile_model(model, "CPU", EXACT)) == 4

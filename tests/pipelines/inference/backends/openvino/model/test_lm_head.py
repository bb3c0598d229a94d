"""Rows are dropped before the head, whatever the export puts after it, and the kept ones are the same."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT, gather_logits, leave_out_head
from pipelines.inference.contracts.device_errors import ModelError

HIDDEN, VOCABULARY = 8, 20
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(VOCABULARY, HIDDEN)).astype(np.float32)
ROWS = np.array([4, 1, 1], np.int64)


def softcap(node):
    return ops.multiply(ops.tanh(ops.divide(node, np.float32(3))), np.float32(3))


def biased(node):
    return ops.add(node, np.arange(VOCABULARY, dtype=np.float32))


def reordered(node):
    """Something that is not row-wise: the gather must stand below it."""
    return ops.cumsum(node, ops.constant(np.int64(0)))


def build(tail) -> ov.Model:
    hidden = ops.parameter([-1, 1, HIDDEN], np.float32, name="hidden")
    head = ops.matmul(ops.relu(hidden), ops.constant(WEIGHT), False, True)
    return ov.Model([ops.result(tail(head))], [hidden])


def infer(model: ov.Model, *values) -> np.ndarray:
    return ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(list(values))[0]


@pytest.mark.parametrize("tail", [lambda node: node, softcap, biased, reordered])
def test_gathered_rows_equal_rows_of_the_whole(tail):
    hidden = RNG.normal(size=(6, 1, HIDDEN)).astype(np.float32)
    whole = infer(build(tail), hidden)
    model = build(tail)
    gather_logits(model)
    np.testing.assert_allclose(infer(model, hidden, ROWS), whole[ROWS], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tail", [lambda node: node, softcap, biased])
def test_the_head_computes_only_gathered_rows(tail):
    model = build(tail)
    gather_logits(model)
    head = next(node for node in model.get_ordered_ops() if node.get_type_name() == "MatMul")
    source = head.input_value(0).get_node()
    assert source.get_type_name() == "Gather"
    assert source.input_value(1).any_name == LOGITS_INPUT


def test_half_precision_logits_become_float32():
    model = build(lambda node: ops.convert(node, "f16"))
    gather_logits(model)
    assert model.output(0).get_element_type() == ov.Type.f32


@pytest.mark.parametrize("tail", [lambda node: node, softcap])
def test_without_its_head_a_model_gives_the_rows_that_the_head_reads(tail):
    hidden = RNG.normal(size=(6, 1, HIDDEN)).astype(np.float32)
    model = build(tail)
    gather_logits(model)
    leave_out_head(model)
    np.testing.assert_allclose(infer(model, hidden, ROWS), np.maximum(hidden, 0)[ROWS], rtol=1e-6)


def test_a_head_that_is_no_linear_before_the_last_layer_is_not_left_out():
    model = build(reordered)
    gather_logits(model)
    with pytest.raises(ModelError, match="its head is no single product behind the last layer: "):
        leave_out_head(model)

"""Rotations read the positions of a step, however an export computes them."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.paging.positions import counts_positions, give_positions

FREQUENCIES = np.array([[1.0, 0.1]], np.float32)
POSITIONS = [7, 2]


def angles(length):
    """float32[length, 2]: the angles of 0, 1, 2 …"""
    numbers = ops.range(ops.constant(0), length, ops.constant(1), "i32")
    return ops.multiply(
        ops.unsqueeze(ops.convert(numbers, "f32"), ops.constant(1)), ops.constant(FREQUENCIES)
    )


def counting():
    """One angle for each token, from 0 on, as the traces of transformers 5 have it."""
    values = ops.parameter([-1, 2], np.float32, name="values")
    length = ops.gather(ops.shape_of(values, "i32"), ops.constant(0), ops.constant(0))
    return [ops.multiply(ops.cos(angles(length)), values)], [values]


def looking_up():
    """A table of all positions, of which tokens read the rows of theirs."""
    longest = ops.parameter([], np.int32, name="longest")
    positions = ops.parameter([-1], np.int64, name="position_ids")
    table = ops.multiply(ops.cos(angles(longest)), ops.constant(np.float32(1)))
    return [ops.gather(table, positions, ops.constant(0))], [longest, positions]


def computed(model, *inputs):
    return ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(list(inputs))[0]


@pytest.fixture
def expected():
    return np.cos(np.array(POSITIONS, np.float32)[:, None] * FREQUENCIES)


def test_counted_positions_are_replaced_by_those_of_the_step(expected):
    outputs, inputs = counting()
    positions = ops.parameter([-1], np.int64, name="position_ids")
    model = ov.Model(outputs, [*inputs, positions])
    assert counts_positions(model)
    give_positions(model)
    assert not counts_positions(model)
    found = computed(model, np.ones((2, 2), np.float32), np.array(POSITIONS))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_without_the_input_they_are_seen():
    model = ov.Model(*counting())
    give_positions(model)
    assert counts_positions(model)


def test_a_table_of_angles_stays(expected):
    model = ov.Model(*looking_up())
    assert not counts_positions(model)
    give_positions(model)
    found = computed(model, np.array(10, np.int32), np.array(POSITIONS))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_order_in_which_angles_are_gathered_is_no_count():
    """As Cohere repeats each angle: the order is counted from the number of angles."""
    values = ops.parameter([-1, 2], np.float32, name="values")
    length = ops.gather(ops.shape_of(values, "i32"), ops.constant(1), ops.constant(0))
    order = ops.range(ops.constant(0), length, ops.constant(1), "i32")
    gathered = ops.gather(values, ops.unsqueeze(order, ops.constant(0)), ops.constant(1))
    assert not counts_positions(ov.Model([ops.cos(gathered)], [values]))

"""Products that OpenVINO computes give a row the same result alone as beside others."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.row_sums import MOST_COLUMNS, sum_rows_alike

WIDTH = 512


def routed(columns=128, by_text=False, is_weight=True):
    """A model of one product, `router`, and its input."""
    rows = ops.parameter([-1, -1, WIDTH] if by_text else [1, -1, WIDTH], np.float32)
    numbers = np.random.default_rng(0).standard_normal((columns, WIDTH)).astype(np.float32)
    weight = ops.constant(numbers) if is_weight else ops.multiply(rows, rows)
    product = ops.matmul(rows, weight, False, True)
    product.set_friendly_name("router")
    return ov.Model([ops.softmax(product, -1)], [rows])


def test_a_row_alone_has_the_sums_that_it_has_beside_others():
    model = routed()
    assert sum_rows_alike(model)
    assert "router" in [node.get_friendly_name() for node in model.get_ops()]
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    rows = np.random.default_rng(1).standard_normal((1, 70, WIDTH)).astype(np.float32)
    together = compiled(rows)[0].copy()
    for count in (1, 2, 3, 17):
        np.testing.assert_array_equal(compiled(rows[:, :count])[0], together[:, :count])


@pytest.mark.parametrize(
    "given",
    [{"columns": MOST_COLUMNS + 1}, {"by_text": True}, {"is_weight": False}],
    ids=lambda given: next(iter(given)),
)
def test_large_products_and_those_of_other_forms_are_left_as_they_are(given):
    model = routed(**given)
    before = [node.get_type_name() for node in model.get_ops()]
    assert not sum_rows_alike(model)
    assert [node.get_type_name() for node in model.get_ops()] == before

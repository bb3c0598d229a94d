"""Float zero points become sums of blocks."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from block_products import INNER, block_product

from pipelines.inference.backends.onnx.block_sums import multiply_block_sums


def run(model, rows):
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString())
    return session.run(None, {"rows": rows})[0]


@pytest.mark.parametrize("bits", [4, 8])
def test_the_product_is_what_the_weight_says(bits):
    model, weight = block_product(bits, "float32")
    rows = np.random.default_rng(1).normal(size=(1, 3, INNER)).astype(np.float32)
    multiply_block_sums(model.graph)
    (linear,) = (node for node in model.graph if node.op_type == "MatMulNBits")
    assert len(linear.inputs) == 3
    np.testing.assert_allclose(run(model, rows), rows @ weight.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("zeros", [None, "packed"])
def test_others_are_left_as_they_are(zeros):
    model, _ = block_product(4, zeros)
    multiply_block_sums(model.graph)
    assert [node.op_type for node in model.graph] == ["MatMulNBits", "Identity"]

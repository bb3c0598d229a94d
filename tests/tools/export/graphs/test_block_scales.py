"""Weights in blocks of 4 bits: what they mean to an engine, and how near they are."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from tools.export.graphs.block_scales import round_to_4_bits
from tools.export.graphs.quantizing import quantize

RNG = np.random.default_rng(0)
BLOCK = 32


def meant(packed, scales, inner):
    """float32[outer, inner] of what MatMulNBits reads."""
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(*scales.shape, -1).astype(np.float32)
    return ((codes - 8) * scales[..., None]).reshape(len(scales), -1)[:, :inner]


def nearest(weight):
    """The same of ONNX Runtime's own quantizer, which gives the largest weight of a block its code."""
    from onnxruntime.capi import _pybind_state as quantizer

    outer, inner = weight.shape
    packed = np.zeros((outer, inner // BLOCK, BLOCK // 2), np.uint8)
    scales = np.zeros(packed.shape[:2], np.float32)
    turned = np.ascontiguousarray(weight.T)
    quantizer.quantize_matmul_4bits(
        packed, turned, scales, np.zeros(scales.shape, np.uint8), BLOCK, outer, inner, True
    )
    return meant(packed, scales, inner)


@pytest.mark.parametrize("draw", [RNG.normal, RNG.laplace, RNG.uniform])
def test_searched_scales_are_nearer_than_those_of_the_largest_weights(draw):
    weight = draw(size=(48, 256)).astype(np.float32)
    error = ((meant(*round_to_4_bits(weight, BLOCK)[:2], 256) - weight) ** 2).mean()
    assert error < 0.95 * ((nearest(weight) - weight) ** 2).mean()


def test_weights_that_blocks_can_hold_are_held():
    scales = RNG.uniform(0.01, 1, (6, 3, 1)).astype(np.float32)
    codes = RNG.integers(-8, 8, (6, 3, BLOCK))
    codes[..., 0] = -8
    weight = (codes * scales).reshape(6, -1)
    np.testing.assert_allclose(meant(*round_to_4_bits(weight, BLOCK)[:2], 3 * BLOCK), weight, rtol=1e-5)


def test_columns_that_meet_large_numbers_are_nearer():
    weight = RNG.normal(size=(48, 256)).astype(np.float32)
    rows = (RNG.normal(size=(2000, 256)) * RNG.lognormal(0, 2, 256)).astype(np.float32)
    squares = (rows**2).mean(0)
    plain, weighed = round_to_4_bits(weight, BLOCK), round_to_4_bits(weight, BLOCK, squares)

    def lost(rounded):
        wrong = rows @ (meant(*rounded[:2], 256) - weight).T
        return (wrong**2).sum() / ((rows @ weight.T) ** 2).sum()

    assert lost(weighed) < 0.8 * lost(plain)
    assert weighed.lost == pytest.approx(lost(weighed), rel=0.2)


def test_columns_that_meet_nothing_are_rounded_too():
    weight = RNG.normal(size=(4, 64)).astype(np.float32)
    for squares in (np.zeros(64, np.float32), np.repeat(np.float32([0, 1]), 32)):
        rounded = round_to_4_bits(weight, BLOCK, squares)
        assert np.abs(meant(*rounded[:2], 64) - weight).max() < np.abs(weight).max() / 7
        assert 0 < rounded.lost < 0.02


def test_rows_that_are_no_whole_blocks_and_blocks_of_zeros(monkeypatch):
    monkeypatch.setattr("tools.export.graphs.block_scales.SLICE_WEIGHTS", 100)  # a row or two at a time
    weight = RNG.normal(size=(7, 2 * BLOCK + 5)).astype(np.float32)
    weight[3], weight[:, :BLOCK] = 0, 0
    packed, scales, _ = round_to_4_bits(weight, BLOCK)
    assert (packed.shape, scales.shape) == ((7, 3, BLOCK // 2), (7, 3))
    held = meant(packed, scales, weight.shape[1])
    assert not held[3].any()
    assert not held[:, :BLOCK].any()
    assert np.abs(held - weight).max() < np.abs(weight).max() / 7


def test_onnxruntime_multiplies_what_they_mean():
    weight, rows = RNG.normal(size=(24, 64)).astype(np.float32), RNG.normal(size=(3, 64)).astype(np.float32)
    packed, scales, _ = round_to_4_bits(weight, BLOCK)
    stored = [
        ir.val(name, const_value=ir.tensor(value, name=name))
        for name, value in (("packed", packed), ("scales", scales))
    ]
    rows_in = ir.val("rows", ir.DataType.FLOAT, [3, 64])
    sizes = {"K": 64, "N": 24, "bits": 4, "block_size": BLOCK}
    node = ir.node("MatMulNBits", [rows_in, *stored], sizes, domain="com.microsoft")
    out = node.outputs[0]
    out.name, out.dtype, out.shape = "product", ir.DataType.FLOAT, ir.Shape([3, 24])
    graph = ir.Graph(
        [rows_in], [out], nodes=[node], initializers=stored, opset_imports={"": 23, "com.microsoft": 1}
    )
    session = ort.InferenceSession(ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString())
    np.testing.assert_allclose(
        session.run(None, {"rows": rows})[0], rows @ meant(packed, scales, 64).T, atol=1e-4
    )


def test_the_weights_that_lose_most_have_more_bits():
    sizes = {"even": (64, 640), "uneven": (64, 32), "last": (32, 2048)}
    weights = {name: RNG.uniform(-1, 1, size).astype(np.float32) for name, size in sizes.items()}
    weights["uneven"][::8] *= 20  # of a block, one in eight makes the scale too large for the others
    squares = {name: np.ones(size[0], np.float32) for name, size in sizes.items()}
    squares["uneven"][::8] = 1e-3
    rows = ir.val("rows", ir.DataType.FLOAT, [3, 64])
    nodes, held = [], []
    for name in ("even", "uneven"):
        held.append(ir.val(name, const_value=ir.tensor(weights[name], name=name)))
        nodes.append(ir.node("MatMul", [rows, held[-1]], name=name))
    held.append(ir.val("last", const_value=ir.tensor(weights["last"], name="last")))
    nodes.append(ir.node("MatMul", [nodes[1].outputs[0], held[-1]], name="last"))
    nodes[-1].outputs[0].name = "logits"
    outputs = [nodes[0].outputs[0], nodes[-1].outputs[0]]
    graph = ir.Graph([rows], outputs, nodes=nodes, initializers=held, opset_imports={"": 23})
    quantized_model = quantize(ir.Model(graph, ir_version=10), "int4", squares)
    bits = {node.name: node.attributes["bits"].as_int() for node in quantized_model.graph}
    assert bits == {"even": 4, "uneven": 8, "last": 8}
    assert {"even.int4", "uneven.int8", "last.int8"} == {
        name for name in quantized_model.graph.initializers if "int" in name
    }

"""Mixtures in the form of OpenVINO's own files: routed where OpenVINO knows the form, else named."""

import logging
from pathlib import Path

import numpy as np
import pytest

ov = pytest.importorskip("openvino")
from openvino import opset13 as ops  # noqa: E402

from pipelines.inference.backends.openvino.decoder.expert_layers import ExpertLayers  # noqa: E402
from pipelines.inference.backends.openvino.decoder.routed_tiles import route_tiles  # noqa: E402
from pipelines.inference.backends.openvino.decoder.tiled_experts import count_tiled  # noqa: E402

EXPERTS, WIDTH, INNER, USED = 8, 64, 96, 2
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
RNG = np.random.default_rng(0)


def ints(*numbers):
    return ops.constant(np.array(numbers, np.int64))


def weight(*shape):
    codes = ops.convert(ops.constant(RNG.integers(0, 255, shape).astype(np.uint8)), "f32")
    middle = ops.convert(ops.constant(np.full((*shape[:2], 1), 128, np.uint8)), "f32")
    scales = ops.constant(np.full((*shape[:2], 1), 0.01, np.float32))
    return ops.multiply(ops.subtract(codes, middle), scales)


def chosen(rows):
    """The weights of all experts [tokens, experts], 0 for those that were not chosen."""
    scores = ops.matmul(
        rows, ops.constant(RNG.normal(0, 1, (EXPERTS, WIDTH)).astype(np.float32)), False, True
    )
    best = ops.topk(
        ops.softmax(scores, 1), ops.constant(np.int64(USED)), 1, "max", "value", index_element_type="i64"
    )
    tokens = ops.gather(ops.shape_of(rows, "i64"), ints(0), ops.constant(np.int64(0)))
    zeros = ops.broadcast(ops.constant(np.float32(0)), ops.concat([tokens, ints(EXPERTS)], 0))
    return ops.scatter_elements_update(zeros, best.output(1), best.output(0), ops.constant(np.int32(1)))


def packed(kind, group):
    """A weight of four bits as optimum-intel writes it: with zeros for u4, in float16."""

    def weight(experts, rows, columns):
        shape = [experts, rows, columns // group, group]

        def constant(last):
            least = -8 if kind == "i4" else 0
            codes = RNG.integers(least, least + 16, (*shape[:3], last))
            number = ov.op.Constant(getattr(ov.Type, kind), ov.Shape(codes.shape), codes.reshape(-1).tolist())
            return ops.convert(number, "f16")

        codes = constant(group)
        if kind == "u4":
            codes = ops.subtract(codes, constant(1))
        scales = RNG.uniform(0.005, 0.02, [*shape[:3], 1]).astype(np.float16)
        scaled = ops.multiply(codes, ops.constant(scales))
        return ops.convert(ops.reshape(scaled, ints(experts, rows, columns), False), "f32")

    return weight


def mixture(silu, weight=weight, watched=False):
    """A model of one layer of experts, in optimum-intel's pattern; `watched`: all experts' results are read."""
    rows = ops.parameter([-1, WIDTH], np.float32, name="rows")
    by_expert = ops.reshape(ops.transpose(chosen(rows), ints(1, 0)), ints(EXPERTS, -1, 1), False)
    tiled = ops.reshape(ops.tile(rows, ints(EXPERTS, 1)), ints(EXPERTS, -1, WIDTH), False)
    gate, up = (ops.matmul(tiled, weight(EXPERTS, INNER, WIDTH), False, True) for _ in range(2))
    mixed = ops.matmul(ops.multiply(silu(gate), up), weight(EXPERTS, WIDTH, INNER), False, True)
    mixed = ops.reshape(mixed, ints(EXPERTS, -1, WIDTH), False)
    product = ops.multiply(mixed, by_expert)
    total = ops.reduce_max(product, ints(0), False) if watched else ops.reduce_sum(product, ints(0), False)
    return ov.Model([total], [rows])


FORMS = {
    "known": lambda gate: ops.multiply(gate, ops.sigmoid(gate)),
    "unknown": ops.swish,  # with beta as an input, which OpenVINO's pass does not look for
}


@pytest.mark.parametrize(("form", "said"), [("known", "routed"), ("unknown", "3 of them for every token")])
def test_what_openvino_computes_for_every_token_is_named(form, said, caplog):
    model = mixture(FORMS[form])
    assert count_tiled(model) == 3
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    with caplog.at_level(logging.WARNING):
        facts = ExpertLayers(num_tiled=3).facts(Path("model.xml"), compiled, "")
    assert said in facts["experts"]
    assert ("braid export" in caplog.text) == (form == "unknown")


def test_layers_of_the_kernels_are_named_beside_those_of_openvino():
    model = mixture(FORMS["known"])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    facts = ExpertLayers(by_kernels=47, num_tiled=3).facts(Path("model.xml"), compiled, "braid kernels")
    assert facts["experts"] == "47 of 47 layers by braid kernels; 3 weights, routed by OpenVINO"


@pytest.mark.parametrize("shape", [(1, 1), (EXPERTS, 1)])
def test_scales_of_columns_are_left_to_openvino_too(kernels, shape):
    """A layer as wide inside as outside, so that there are as many columns as rows."""

    def by_column(experts, rows, columns):
        codes = ops.convert(
            ops.constant(RNG.integers(0, 255, (experts, rows, columns)).astype(np.uint8)), "f32"
        )
        scales = RNG.uniform(0.005, 0.02, (*shape, columns)).astype(np.float32)
        return ops.multiply(ops.subtract(codes, ops.constant(np.float32(128))), ops.constant(scales))

    model = mixture(ops.swish, by_column)
    assert route_tiles(model, kernels(2)) == 0


WEIGHTS = {"u8": weight, "u4": packed("u4", 32), "i4": packed("i4", 16)}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("form", FORMS)
def test_the_kernels_compute_them_from_the_constants_of_the_file(kernels, form, kind):
    model = mixture(FORMS[form], WEIGHTS[kind])
    states = RNG.normal(0, 1, (90, WIDTH)).astype(np.float32)
    expected = ov.Core().compile_model(model, "CPU", EXACT)(states)[0].copy()
    assert route_tiles(model, kernels(2)) == 1
    assert count_tiled(model) == 0
    compiled = ov.Core().compile_model(model, "CPU", EXACT)
    together = compiled(states)[0].copy()
    assert (together - expected).std() < 2e-3 * expected.std(), "OpenVINO's weights are products of float16"
    for count in (1, 7):
        np.testing.assert_array_equal(compiled(states[:count])[0], together[:count])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_one_zero_that_is_not_the_middle_is_left_to_openvino(kernels, shape):
    def off_the_middle(*of_weight):
        codes = ops.convert(ops.constant(RNG.integers(0, 255, of_weight).astype(np.uint8)), "f32")
        zero = ops.convert(ops.constant(np.full(shape, 100, np.uint8)), "f32")
        scales = ops.constant(np.full((*of_weight[:2], 1), 0.01, np.float32))
        return ops.multiply(ops.subtract(codes, zero), scales)

    model = mixture(ops.swish, off_the_middle)
    assert route_tiles(model, kernels(2)) == 0
    assert count_tiled(model) == 3


def test_what_is_no_weighted_sum_is_left_to_openvino(kernels):
    model = mixture(ops.swish, watched=True)
    assert route_tiles(model, kernels(2)) == 0
    assert count_tiled(model) == 3

"""Routers that the kernels' operator of experts computes itself: the same experts and weights, in each usual form."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.fused_routers import fuse_routers

EXPERTS, WIDTH, INNER, USED, GROUP = 20, 64, 96, 3, 32
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def numbers(rng, *shape):
    return ops.constant(rng.standard_normal(shape).astype(np.float32))


def last_sum(values):
    return ops.reduce_sum(values, ops.constant(np.array([-1], np.int64)), True)


def top(scores, **settings):
    return ops.topk(
        scores, ops.constant(np.int64(USED)), -1, "max", "value", index_element_type="i64", **settings
    )


def qwen(rng, outputs):
    best, chosen = top(ops.softmax(outputs, -1)).outputs()
    least = ops.constant(np.float32(6e-5))
    return chosen, ops.divide(best, ops.maximum(last_sum(best), least))


def mixtral(rng, outputs):
    best, chosen = top(outputs).outputs()
    return chosen, ops.softmax(best, -1)


def deepseek(rng, outputs):
    scores = ops.sigmoid(outputs)
    chosen = top(ops.add(scores, numbers(rng, EXPERTS))).output(1)
    weights = ops.gather_elements(scores, chosen, 2)
    weights = ops.divide(weights, ops.add(last_sum(weights), ops.constant(np.float32(1e-20))))
    return chosen, ops.multiply(weights, ops.constant(np.float32(2.5)))


def plain(rng, outputs):
    best, chosen = top(ops.softmax(outputs, -1)).outputs()
    return chosen, best


ROUTERS = {each.__name__: each for each in (qwen, mixtral, deepseek, plain)}


def experts_of(rng, rows, chosen, weights, library):
    """The operator with random weights of four bits."""
    absent, constants = ops.constant(np.zeros((), np.float32)).output(0), []
    for size, columns in ((INNER, WIDTH), (WIDTH, INNER), (INNER, WIDTH)):
        codes = rng.integers(0, 256, (EXPERTS, size, columns // GROUP, GROUP // 2)).astype(np.uint8)
        scales = rng.uniform(0.01, 0.02, codes.shape[:3]).astype(np.float32)
        constants += [ops.constant(codes).output(0), ops.constant(scales).output(0), absent, absent]
    attributes = {"levels": 2, "activation": 0, "alpha": 1.0, "limit": 1.0, "table": 0}
    attributes |= {"bits": [4] * 3, "blocks": [GROUP] * 3}
    return library.node("Experts", [rows.output(0), chosen, weights, *constants], attributes)


def layer(router, library, transposed=False, bias=False, watched=False):
    """A model of a layer; `bias`: its router has one; `watched`: something else reads what is chosen."""
    rng = np.random.default_rng(0)
    rows = ops.parameter([1, -1, WIDTH], np.float32)
    weight = numbers(rng, *((EXPERTS, WIDTH) if transposed else (WIDTH, EXPERTS)))
    outputs = ops.matmul(rows, weight, False, transposed)
    if bias:
        outputs = ops.add(outputs, numbers(rng, EXPERTS))
    chosen, weights = router(rng, outputs)
    mixed = experts_of(
        rng, rows, chosen, weights.output(0) if isinstance(weights, ov.Node) else weights, library
    )
    mixed.set_friendly_name("experts")
    return ov.Model([mixed.output(0), chosen] if watched else [mixed.output(0)], [rows])


def some_rows(count=70):
    return np.random.default_rng(2).standard_normal((1, count, WIDTH)).astype(np.float32)


def kinds(model):
    return {node.get_type_name() for node in model.get_ops()}


@pytest.mark.parametrize(
    "of_layer", [{}, {"transposed": True}, {"bias": True}], ids=["", "transposed", "bias"]
)
@pytest.mark.parametrize("name", ROUTERS)
def test_a_usual_router_is_part_of_the_experts(kernels, name, of_layer):
    library = kernels(2).library
    model = layer(ROUTERS[name], library, **of_layer)
    expected = ov.Core().compile_model(model, "CPU", EXACT)(some_rows())[0].copy()
    fuse_routers(model, library)
    assert not {"TopK", "Softmax", "Sigmoid", "ReduceSum"} & kinds(model)
    assert ("MatMul" in kinds(model)) == ("bias" in of_layer), "which is added to a product of OpenVINO"
    assert "experts" in [node.get_friendly_name() for node in model.get_ops()]
    compiled = ov.Core().compile_model(model, "CPU", EXACT)
    together = compiled(some_rows())[0].copy()
    np.testing.assert_allclose(together, expected, atol=2e-5 * np.abs(expected).max())
    for count in (1, 2, 65) if not of_layer.get("bias") else ():
        np.testing.assert_array_equal(compiled(some_rows()[:, :count])[0], together[:, :count])


def test_a_chosen_expert_that_something_else_reads_is_left_to_openvino(kernels):
    library = kernels(2).library
    model = layer(qwen, library, watched=True)
    fuse_routers(model, library)
    assert {"TopK", "Softmax"} <= kinds(model)


def smallest(rng, outputs):
    """Weights of the worst experts, which no router chooses."""
    worst = ops.topk(
        ops.softmax(outputs, -1), ops.constant(np.int64(USED)), -1, "min", "value", index_element_type="i64"
    )
    return worst.output(1), worst.output(0)


def squared(rng, outputs):
    best, chosen = top(ops.softmax(outputs, -1)).outputs()
    return chosen, ops.multiply(best, best)


def raised(rng, outputs):
    """Experts that are chosen by scores to all of which one number is added."""
    scores = ops.sigmoid(outputs)
    chosen = top(ops.add(scores, ops.constant(np.float32(0.5)))).output(1)
    return chosen, ops.gather_elements(scores, chosen, 2)


@pytest.mark.parametrize("router", [smallest, squared, raised])
def test_another_router_is_left_to_openvino(kernels, router):
    library = kernels(2).library
    model = layer(router, library)
    fuse_routers(model, library)
    assert "TopK" in kinds(model)

"""What linear layers of Braid's kernels do beside: outputs of several weights, and the product of a gate."""

from __future__ import annotations

from collections import Counter

import numpy as np
import openvino as ov
import pytest
from openvino import opset2
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.block_linears import use_block_linears
from pipelines.inference.backends.openvino.model.fused_linears import AND, MOST_JOINED

WIDTH, INNER, ROWS = 64, 96, 37


def weight(rng, rows, columns, zeros=False):
    """A weight of int8, or uint8 with zero points, with a scale for a row, as graphs have it."""
    dtype = np.uint8 if zeros else np.int8
    codes = ops.constant(rng.integers(*((0, 256) if zeros else (-127, 128)), (rows, columns), dtype))
    if zeros:
        points = ops.constant(rng.integers(120, 136, (rows, 1), np.uint8))
        codes = ops.subtract(ops.convert(codes, "f32"), ops.convert(points, "f32"))
    scales = ops.constant(((0.5 + rng.random((rows, 1))) / 1024).astype(np.float32))
    return ops.multiply(codes if zeros else ops.convert(codes, "f32"), scales)


def split(value, *sizes):
    return ops.variadic_split(value, ops.constant(np.int64(-1)), ops.constant(np.array(sizes, np.int64)))


def silu_by_sigmoid(gate):
    return ops.multiply(ops.sigmoid(gate), gate)


def gelu(gate):
    return ops.gelu(gate, "tanh")


def network(activate, turned=False, watched=False):
    """The network of a layer; `turned`: the gate comes last; `watched`: something else reads its middle."""
    rng = np.random.default_rng(0)
    rows = ops.parameter([-1, WIDTH], np.float32)
    both = split(ops.matmul(rows, weight(rng, 2 * INNER, WIDTH), False, True), INNER, INNER)
    gate, up = both.output(int(turned)), both.output(1 - turned)
    middle = ops.multiply(activate(gate), up)
    down = ops.matmul(middle, weight(rng, WIDTH, INNER), False, True)
    down.set_friendly_name("down")
    return ov.Model([down, middle] if watched else [down], [rows])


def kinds(model):
    return Counter(node.get_type_name() for node in model.get_ops())


def computed(model, rows):
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    return ov.Core().compile_model(model, "CPU", exact)(rows)


def some_rows(count=ROWS):
    return np.random.default_rng(2).normal(size=(count, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("activate", [ops.swish, silu_by_sigmoid, gelu])
def test_a_network_with_a_gate_is_two_nodes(kernels, activate):
    expected = computed(network(activate), some_rows())[0]
    model = network(activate)
    use_block_linears(model, kernels(2))
    assert kinds(model)["BlockLinear"] == 2
    assert not {"VariadicSplit", "Sigmoid", "Swish", "Gelu"} & {*kinds(model)}
    assert "down" in [node.get_friendly_name() for node in model.get_ops()]
    together = computed(model, some_rows())[0].copy()
    np.testing.assert_allclose(together, expected, atol=1e-4 * np.abs(expected).max())
    for count in (1, 16):
        np.testing.assert_array_equal(computed(model, some_rows()[:count])[0], together[:count])


def old_gelu(gate):
    return opset2.gelu(gate)


def steeper_silu(gate):
    return ops.swish(gate, ops.constant(np.float32(2)))


@pytest.mark.parametrize("activate", [old_gelu, steeper_silu])
def test_an_activation_of_another_form_is_left_to_openvino(kernels, activate):
    expected = computed(network(activate), some_rows())[0]
    model = network(activate)
    use_block_linears(model, kernels(2))
    assert {"Gelu", "Swish"} & {*kinds(model)}
    np.testing.assert_allclose(computed(model, some_rows())[0], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("option", "left"), [("turned", 1), ("watched", 0)])
def test_a_gate_that_comes_last_is_left_to_openvino_and_a_product_may_have_several_readers(
    kernels, option, left
):
    expected = computed(network(ops.swish, **{option: True}), some_rows())
    model = network(ops.swish, **{option: True})
    use_block_linears(model, kernels(2))
    assert kinds(model)["Swish"] == left
    assert not kinds(model)["VariadicSplit"], "each half is an output"
    for found, wanted in zip(computed(model, some_rows()).values(), expected.values(), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


def test_what_a_gate_writes_may_have_a_gate_again(kernels):
    def twice():
        rng = np.random.default_rng(0)
        rows = ops.parameter([-1, WIDTH], np.float32)
        both = split(ops.matmul(rows, weight(rng, 2 * INNER, WIDTH), False, True), INNER, INNER)
        product = ops.multiply(ops.swish(both.output(0)), both.output(1))
        halves = split(product, INNER // 2, INNER // 2)
        return ov.Model([ops.multiply(ops.swish(halves.output(0)), halves.output(1))], [rows])

    expected = computed(twice(), some_rows())[0]
    model = twice()
    use_block_linears(model, kernels(2))
    assert kinds(model)["Swish"] == 1
    np.testing.assert_allclose(computed(model, some_rows())[0], expected, atol=1e-4 * np.abs(expected).max())


def attention(*sizes):
    """What is split in several, each of which a result reads."""
    rng = np.random.default_rng(1)
    rows = ops.parameter([-1, WIDTH], np.float32)
    parts = split(ops.matmul(rows, weight(rng, sum(sizes), WIDTH), False, True), *sizes)
    return ov.Model([ops.relu(part) for part in parts.outputs()], [rows])


@pytest.mark.parametrize(("sizes", "splits"), [((48, 16, 24), 0), ((16, 20, 12), 1)])
def test_queries_keys_and_values_are_outputs_where_blocks_of_channels_end(kernels, sizes, splits):
    expected = computed(attention(*sizes), some_rows())
    model = attention(*sizes)
    use_block_linears(model, kernels(2))
    assert kinds(model)["VariadicSplit"] == splits
    for found, wanted in zip(computed(model, some_rows()).values(), expected.values(), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


def apart(*sizes, zeros=(False, False, False)):
    """Linear layers of the same rows, each of a weight of its own, and one of other rows."""
    rng = np.random.default_rng(1)
    rows = ops.parameter([-1, WIDTH], np.float32)
    linears = [
        ops.matmul(rows, weight(rng, size, WIDTH, zero), False, True)
        for size, zero in zip(sizes, zeros, strict=True)
    ]
    for node, name in zip(linears, "qkv", strict=False):
        node.set_friendly_name(name)
    other = ops.matmul(ops.relu(rows), weight(rng, 16, WIDTH), False, True)
    return ov.Model([ops.relu(value) for value in [*linears, other]], [rows])


@pytest.mark.parametrize(
    ("zeros", "names"),
    [
        ((False, False, False), ["kqv"]),
        ((True, True, True), ["kqv"]),
        ((True, False, True), ["k", "qv"]),
    ],
)
@pytest.mark.parametrize("sizes", [(48, 16, 24), (20, 12, 7), (5, 100, 3)])
def test_linear_layers_of_the_same_rows_are_one(kernels, sizes, zeros, names):
    expected = computed(apart(*sizes, zeros=zeros), some_rows())
    model = apart(*sizes, zeros=zeros)
    assert use_block_linears(model, kernels(2)).count == 4
    assert kinds(model)["BlockLinear"] == 1 + len(names)
    assert not kinds(model)["VariadicSplit"]
    joined = [node.get_friendly_name() for node in model.get_ops() if node.get_type_name() == "BlockLinear"]
    assert {"".join(sorted(name.split(AND))) for name in joined} > {*names}
    together = [value.copy() for value in computed(model, some_rows()).values()]
    for result, wanted in zip(together, expected.values(), strict=True):
        np.testing.assert_allclose(result, wanted, atol=1e-4 * np.abs(wanted).max())
    for result, wanted in zip(computed(model, some_rows()[:1]).values(), together, strict=True):
        np.testing.assert_array_equal(result, wanted[:1])


@pytest.mark.parametrize("gate_is_first", [True, False])
@pytest.mark.parametrize("inner", [INNER, 40])
@pytest.mark.parametrize("activate", [ops.swish, silu_by_sigmoid, gelu])
def test_a_gate_of_a_weight_of_its_own_is_computed_with_its_other_half(
    kernels, activate, inner, gate_is_first
):
    def network_apart():
        rng = np.random.default_rng(0)
        rows = ops.parameter([-1, WIDTH], np.float32)
        both = [ops.matmul(rows, weight(rng, inner, WIDTH), False, True) for _ in range(2)]
        gate, up = both if gate_is_first else reversed(both)
        down = ops.matmul(ops.multiply(up, activate(gate)), weight(rng, WIDTH, inner), False, True)
        return ov.Model([down], [rows])

    expected = computed(network_apart(), some_rows())[0]
    model = network_apart()
    use_block_linears(model, kernels(2))
    assert kinds(model) == {"Parameter": 1, "Result": 1, "BlockLinear": 2, "Constant": 6}
    np.testing.assert_allclose(computed(model, some_rows())[0], expected, atol=1e-4 * np.abs(expected).max())


def test_weights_of_several_types_are_read_again_from_a_stored_model(kernels, tmp_path):
    model = apart(20, 12, 7, zeros=(True, False, True))
    use_block_linears(model, kernels(2))
    ov.save_model(model, tmp_path / "stored.xml", compress_to_fp16=False)
    core = ov.Core()
    kernels(2).library.add_to(core)
    stored = core.read_model(tmp_path / "stored.xml")
    assert kinds(stored)["BlockLinear"] == 3
    for result, wanted in zip(
        computed(stored, some_rows()).values(), computed(model, some_rows()).values(), strict=True
    ):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("count", [1, 20])
def test_a_gate_is_one_with_its_other_half_beside_other_linear_layers_of_the_same_rows(kernels, count):
    def network_beside_others():
        rng = np.random.default_rng(0)
        rows = ops.parameter([-1, WIDTH], np.float32)
        others = [ops.relu(ops.matmul(rows, weight(rng, 16, WIDTH), False, True)) for _ in range(count)]
        gate, up = (ops.matmul(rows, weight(rng, INNER, WIDTH), False, True) for _ in range(2))
        down = ops.matmul(ops.multiply(up, ops.swish(gate)), weight(rng, WIDTH, INNER), False, True)
        return ov.Model([down, *others], [rows])

    model = network_beside_others()
    expected = [value.copy() for value in computed(model, some_rows()).values()]
    use_block_linears(model, kernels(2))
    assert kinds(model)["BlockLinear"] == 2 + count
    assert not {"Swish", "VariadicSplit"} & {*kinds(model)}
    for result, wanted in zip(computed(model, some_rows()).values(), expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=1e-4 * np.abs(wanted).max())


def test_what_one_linear_layer_writes_in_parts_is_not_joined_with_others(kernels):
    rng = np.random.default_rng(0)
    rows = ops.parameter([-1, WIDTH], np.float32)
    parts = split(ops.matmul(rows, weight(rng, 64, WIDTH), False, True), 48, 16)
    other = ops.matmul(rows, weight(rng, 32, WIDTH), False, True)
    model = ov.Model([ops.relu(value) for value in (*parts.outputs(), other)], [rows])
    use_block_linears(model, kernels(2))
    assert kinds(model)["BlockLinear"] == 2
    assert not kinds(model)["VariadicSplit"]


@pytest.mark.parametrize(("count", "operators"), [(MOST_JOINED, 2), (MOST_JOINED + 1, MOST_JOINED + 2)])
def test_results_of_many_linear_layers_are_not_in_memory_at_once(kernels, count, operators):
    model = apart(*[16] * count, zeros=[False] * count)
    use_block_linears(model, kernels(2))
    assert kinds(model)["BlockLinear"] == operators


def constant_of(array):
    return ops.constant(array).output(0)


@pytest.mark.parametrize(
    ("columns", "weights", "says"),
    [
        ((WIDTH, 32), 2, "weights of 64 and 32 columns"),
        ((WIDTH, WIDTH), 3, "inputs of 3 weights"),
        ((WIDTH,), 0, "inputs of 0 weights"),
    ],
)
def test_weights_that_do_not_fit_together_are_refused(kernels, columns, weights, says):
    rows = ops.parameter([-1, WIDTH], np.float32)
    constants = [
        constant_of(array)
        for size in columns
        for array in (np.ones((48, size), np.int8), np.ones((48, 1), np.float32))
    ]
    with pytest.raises(RuntimeError, match=says):
        kernels(2).library.node(
            "BlockLinear", [rows.output(0), *constants], {"levels": 2, "weights": weights}
        )


@pytest.mark.parametrize(
    "attributes", [{"parts": [16, 20]}, {"parts": [20, 28]}, {"gated": 9}, {"gated": 1}, {"gated": -1}]
)
def test_parts_and_gates_that_do_not_fit_are_refused(kernels, attributes):
    rng = np.random.default_rng(0)
    rows = ops.parameter([-1, WIDTH], np.float32)
    codes = ops.constant(rng.integers(-9, 9, (48, WIDTH), np.int8))
    inputs = [rows.output(0), codes.output(0), ops.constant(np.ones((48, 1), np.float32)).output(0)]
    with pytest.raises(RuntimeError, match="Check"):
        kernels(2).library.node("BlockLinear", inputs, {"levels": 2, **attributes})

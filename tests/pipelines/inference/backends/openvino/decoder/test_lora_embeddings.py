"""Room for adapters at the ends of graphs: how embeddings and head are found, and what they compute then."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.adapters.weights import AdapterWeights, LinearShape, LoraFactors
from pipelines.inference.backends.adapter_inputs import AdapterInputs
from pipelines.inference.backends.onnx import lora_embeddings as onnx_ends
from pipelines.inference.backends.openvino.decoder import lora_embeddings as openvino_ends

VOCABULARY, WIDTH, CAP = 11, 8, 5.0
BOTH = frozenset({"embed_tokens", "lm_head", "q_proj"})
SHAPES = {"embed_tokens": LinearShape(VOCABULARY, WIDTH), "lm_head": LinearShape(WIDTH, VOCABULARY)}
RNG = np.random.default_rng(0)
IDS, ROWS = np.array([3, 1, 4, 1, 5, 9]), np.array([0, 2, 4, 5])


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


TABLE = numbers(VOCABULARY, WIDTH).astype(np.float16).astype(np.float32)
WEIGHT = numbers(VOCABULARY, WIDTH)
OTHER_TABLE, OTHER_WEIGHT = numbers(VOCABULARY, WIDTH), numbers(VOCABULARY, WIDTH)
ONE = np.eye(WIDTH, dtype=np.float32)
HELD = {
    1: AdapterWeights(0, {"lm_head": LoraFactors(numbers(2, WIDTH), numbers(VOCABULARY, 2))}),
    2: AdapterWeights(0, {"embed_tokens": LoraFactors(numbers(3, VOCABULARY), numbers(WIDTH, 3))}),
    3: AdapterWeights(
        0,
        {
            "embed_tokens": LoraFactors(OTHER_TABLE.T, ONE, replaces=True),
            "lm_head": LoraFactors(ONE, OTHER_WEIGHT, replaces=True),
        },
    ),
}
"""A sum at each end, and both ends replaced."""


def right(adapter: int) -> np.ndarray:
    """float32[4 rows, vocabulary] of an adapter alone."""
    table, weight = TABLE, WEIGHT
    for end, own in HELD[adapter].linears.items() if adapter else ():
        if end == "lm_head":
            weight = own.b @ own.a + (0 if own.replaces else weight)
        else:
            table = (own.b @ own.a).T + (0 if own.replaces else table)
    return CAP * np.tanh(table[IDS][ROWS] @ weight.T / CAP)


def steps(compute):
    """`compute` of a step's inputs gives the logits of each of six tokens' own adapter; the sixth is padding."""
    inputs_of_step: dict[str, np.ndarray] = {}
    inputs = AdapterInputs(SHAPES, inputs_of_step.__setitem__)
    for number, weights in HELD.items():
        inputs.put(number, weights)
    for adapters, num_new in (([], []), ([3, 0, 1], [1, 2, 2]), ([2, 3], [3, 2]), ([], []), ([2], [5])):
        more = inputs.of(np.array(adapters, np.int32), np.cumsum([0, *num_new]), len(IDS), ROWS)
        whose = np.array([*np.repeat(adapters, num_new), 0, 0, 0, 0, 0, 0][: len(IDS)], int)
        wanted = [right(adapter)[place] for place, adapter in enumerate(whose[ROWS])]
        np.testing.assert_allclose(compute(inputs_of_step | more), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16 table"])
def test_openvinos_ends_are_found_by_what_they_read(half):
    ids = ops.parameter([-1], np.int64, name="input_ids")
    rows = ops.parameter([-1], np.int64, name="logit_indices")
    for parameter in (ids, rows):
        parameter.output(0).set_names({parameter.get_friendly_name()})
    table = ops.convert(ops.constant(TABLE.astype(np.float16)), "f32") if half else ops.constant(TABLE)
    columns = ops.convert(ops.unsqueeze(ids, np.int64(1)), "i32")
    state = ops.gather(table, columns, ops.constant(0))
    taken = ops.gather(state, rows, ops.constant(0))
    cap = ops.constant(np.array(CAP, np.float32))
    logits = ops.matmul(taken, ops.constant(WEIGHT), False, True)
    capped = ops.multiply(ops.tanh(ops.divide(logits, cap)), cap)
    mask = ops.shape_of(ids)  # which looks nothing up
    model = ov.Model([ops.result(capped), ops.result(mask)], [ids, rows])
    assert openvino_ends.add_lora_embeddings(model, BOTH) == SHAPES
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    steps(lambda more: compiled({"input_ids": IDS, "logit_indices": ROWS, **more})[0][:, 0])


def empty() -> dict[str, np.ndarray]:
    """The inputs of a step of the base."""
    given: dict[str, np.ndarray] = {}
    AdapterInputs(SHAPES, given.__setitem__).none()
    return given


def onnx_model(form: str) -> ir.Model:
    """ids [1, tokens] → logits [rows, vocabulary], by a table and a head as exports write them."""
    ids = ir.val("input_ids", ir.DataType.INT64, [1, "tokens"])
    rows = ir.val("logits_indices", ir.DataType.INT64, ["rows"])
    nodes: list[ir.Node] = []
    weights: list[ir.Value] = []

    def const(name: str, array: np.ndarray) -> ir.Value:
        tensor = ir.tensor(array, name=name)
        weights.append(ir.val(name, tensor.dtype, array.shape, const_value=tensor))
        return weights[-1]

    def op(op_type: str, *inputs: ir.Value, **attributes: int) -> ir.Value:
        nodes.append(ir.node(op_type, inputs, attributes))
        return nodes[-1].outputs[0]

    if form == "blocks":  # as a GGUF file's: codes and scales
        codes = op("Gather", const("t.int8", TABLE.reshape(VOCABULARY, 2, WIDTH // 2)), ids)
        scales = op("Gather", const("t.scales", np.ones((VOCABULARY, 2), np.float32)), ids)
        values = op("Mul", codes, op("Unsqueeze", scales, const("axis", np.array([3]))))
        state = op("Reshape", values, const("flat", np.array([1, -1, WIDTH])))
    else:
        state = op("Gather", const("lm_head.weight", TABLE), ids)
    taken = op("Gather", state, rows, axis=1)
    if form == "gemm":  # as of a weight that both ends have
        taken = op("Reshape", taken, const("two", np.array([-1, WIDTH])))
        logits = op("Gemm", taken, const("w", WEIGHT), transB=1)
    else:
        logits = op("MatMul", taken, const("w", WEIGHT.T.copy()))
    logits = op("Reshape", logits, const("out", np.array([-1, VOCABULARY])))
    if form != "bare":
        cap = const("cap", np.array(CAP, np.float32))
        logits = op("Mul", op("Tanh", op("Div", logits, cap)), cap)
    logits.name, logits.dtype, logits.shape = "logits", ir.DataType.FLOAT, ir.Shape(["rows", VOCABULARY])
    graph = ir.Graph(
        [ids, rows], [logits], nodes=nodes, initializers=weights, opset_imports={"": 23}, name="g"
    )
    return ir.Model(graph, ir_version=10)


@pytest.mark.parametrize("form", ["plain", "gemm", "blocks"])
def test_onnx_ends_are_found_by_their_place(form):
    model = onnx_model(form)
    assert onnx_ends.add_lora_embeddings(model.graph, BOTH) == SHAPES
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    steps(lambda more: session.run(None, {"input_ids": IDS[None], "logits_indices": ROWS, **more})[0])


def test_a_head_whose_product_is_the_output_itself_has_room():
    model = onnx_model("bare")
    last = list(model.graph)[-1]  # the Reshape, which such a graph lacks
    linear = last.inputs[0]
    model.graph.outputs[0].name = "reshaped"
    linear.name, linear.dtype = "logits", ir.DataType.FLOAT
    model.graph.outputs[0] = linear
    model.graph.remove(last, safe=True)
    assert [*onnx_ends.add_lora_embeddings(model.graph, frozenset({"lm_head"}))] == ["lm_head"]
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    arrays = {name: array for name, array in empty().items() if name.endswith("lm_head")}
    logits = session.run(["logits"], {"input_ids": IDS[None], "logits_indices": ROWS, **arrays})[0]
    np.testing.assert_allclose(logits[0], TABLE[IDS][ROWS] @ WEIGHT.T, rtol=1e-4, atol=1e-4)


def test_without_targets_at_the_ends_graphs_stay_as_they_are():
    for targets in (frozenset[str](), frozenset({"q_proj"})):
        model = onnx_model("plain")
        before = len(list(model.graph)), len(model.graph.inputs)
        assert onnx_ends.add_lora_embeddings(model.graph, targets) == {}
        assert (len(list(model.graph)), len(model.graph.inputs)) == before


def test_a_second_table_leaves_the_embeddings_as_they_are():
    model = onnx_model("plain")
    graph = model.graph
    second = ir.val("u", ir.DataType.FLOAT, TABLE.shape, const_value=ir.tensor(TABLE, name="u"))
    graph.register_initializer(second)
    graph.insert_before(graph[0], ir.node("Gather", [second, graph.inputs[0]]))
    assert [*onnx_ends.add_lora_embeddings(graph, BOTH)] == ["lm_head"]

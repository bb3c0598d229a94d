"""Room for adapters in graphs: which products get it, under which names, and what they compute then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.adapters.weights import AdapterWeights, LinearShape, LoraFactors
from pipelines.inference.backends.adapter_inputs import AdapterInputs, check_linears
from pipelines.inference.backends.adapter_stacks import FLOAT32, MAX_SETS, AdapterStacks
from pipelines.inference.backends.onnx import lora_linears as onnx_linears
from pipelines.inference.backends.openvino.model import lora_linears as openvino_linears
from pipelines.inference.backends.openvino.model.arrays import to_tensor
from pipelines.inference.contracts.device_errors import ModelError

ALL: frozenset[str] = frozenset()
RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 8)).astype(np.float32)
ALL_ROWS = np.arange(5)
W = RNG.standard_normal((8, 12)).astype(np.float32)


def adapter(linear: str, rank: int, size_out: int) -> AdapterWeights:
    a, b = RNG.standard_normal((rank, 8)), RNG.standard_normal((size_out, rank))
    return AdapterWeights(rank, {linear: LoraFactors(a.astype(np.float32), b.astype(np.float32))})


def more(weights: AdapterWeights, linear: str, rows: np.ndarray) -> np.ndarray:
    return rows @ weights.linears[linear].a.T @ weights.linears[linear].b.T


def openvino_model() -> ov.Model:
    """[tokens, 1, 8] through two named products, an attention of the same name, and a head."""
    rows = ops.parameter([-1, 1, 8], np.float32, name="rows")
    layer = "__module.model.layers.3.self_attn"
    q = ops.matmul(rows, ops.constant(W), False, False, name=f"{layer}.q_proj/aten::linear/MatMul")
    scores = ops.matmul(q, q, False, True, name=f"{layer}/aten::matmul/MatMul")
    turned = ops.constant(np.ascontiguousarray(W.T))
    v = ops.matmul(rows, turned, False, True, name=f"{layer}.v_proj/aten::linear/MatMul")
    head = ops.matmul(rows, ops.constant(W), False, False, name="__module.lm_head/aten::linear/MatMul")
    return ov.Model(
        [ops.result(output, name=name) for output, name in ((q, "q"), (v, "v"), (scores, "s"), (head, "h"))],
        [rows],
    )


def onnx_graph(linears: list[tuple[str, str]], split: bool = False) -> ir.Model:
    """x [1, tokens, 8] through products with these names of weights and nodes; `split`: 4, 4, 4 of the first."""
    x = ir.val("x", ir.DataType.FLOAT, [1, "tokens", 8])
    nodes, outputs, weights = [], [], []
    for weight_name, node_name in linears:
        weight = ir.val(weight_name, ir.DataType.FLOAT, [8, 12], const_value=ir.tensor(W, name=weight_name))
        nodes.append(ir.node("MatMul", [x, weight], name=node_name))
        weights.append(weight)
        outputs.append(nodes[-1].outputs[0])
    if split:
        sizes = ir.val(
            "sizes", ir.DataType.INT64, [3], const_value=ir.tensor(np.array([4, 4, 4]), name="sizes")
        )
        nodes.append(ir.node("Split", [outputs.pop(), sizes], {"axis": -1}, num_outputs=3))
        weights.append(sizes)
        outputs += nodes[-1].outputs
    results = []
    for number, out in enumerate(outputs):
        nodes.append(ir.node("Identity", [out]))
        result = nodes[-1].outputs[0]
        result.name, result.dtype, result.shape = (
            f"y{number}",
            ir.DataType.FLOAT,
            ir.Shape([1, "tokens", None]),
        )
        results.append(result)
    graph = ir.Graph([x], results, nodes=nodes, initializers=weights, opset_imports={"": 23}, name="g")
    return ir.Model(graph, ir_version=10)


def feed(
    shapes: dict[str, LinearShape],
    held: dict[int, AdapterWeights],
    adapters: list[int],
    num_new: list[int],
    dtype: np.dtype = FLOAT32,
):
    fed: dict[str, np.ndarray] = {}
    inputs = AdapterInputs(shapes, fed.__setitem__, dtype=dtype)
    for number, weights in held.items():
        inputs.put(number, weights)
    starts = np.cumsum([0, *num_new])
    return fed | inputs.of(np.array(adapters, np.int32), starts, len(X), ALL_ROWS) | fed


def test_openvino_products_of_layers_get_room_whatever_way_their_weight_lies():
    model = openvino_model()
    names = ["layers.3.self_attn.q_proj", "layers.3.self_attn.v_proj"]
    shapes = openvino_linears.add_lora(model, ALL)
    assert shapes == dict.fromkeys(names, LinearShape(8, 12))
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    first, two = adapter(names[0], 2, 12), adapter(names[1], 3, 12)
    for adapters, num_new in (([], []), ([1, 0, 2], [2, 1, 1])):  # the fifth token is padding
        inputs = feed(shapes, {1: first, 2: two}, adapters, num_new)
        products = compiled({"rows": X[:, None], **inputs})
        q, v, head = (products[name][:, 0] for name in (0, 1, 3))
        wanted_q, wanted_v = X @ W, X @ W
        if adapters:
            wanted_q[:2] += more(first, names[0], X[:2])
            wanted_v[3:4] += more(two, names[1], X[3:4])
        np.testing.assert_allclose(q, wanted_q, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(v, wanted_v, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(head, X @ W, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "element", [ov.Type.bf16, ov.Type.f16, ov.Type.f32], ids=lambda element_type: element_type.to_string()
)
def test_adapters_are_read_in_the_type_in_which_a_model_computes(monkeypatch, element):
    monkeypatch.setattr(openvino_linears, "inference_type", lambda precision: element)
    model, name = openvino_model(), "layers.3.self_attn.q_proj"
    shapes = openvino_linears.add_lora(model, frozenset({"q_proj"}))
    dtype = openvino_linears.narrow_adapters(model, None)
    types = {port.any_name: port.get_element_type() for port in model.inputs}
    names_of_weights = (f"adapters.a.{name}", f"adapters.b.{name}")
    assert types == {"adapters.slot": ov.Type.f32, **dict.fromkeys(names_of_weights, element)} | {
        "rows": ov.Type.f32
    }
    weights = adapter(name, 2, 12)
    inputs = feed(shapes, {1: weights}, [1], [5], dtype)
    tensors = {name: to_tensor(name, array) for name, array in {"rows": X[:, None], **inputs}.items()}
    product = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(tensors)["q"][:, 0]
    a, b = (
        matrix.astype(dtype).astype(np.float32)
        for matrix in (weights.linears[name].a, weights.linears[name].b)
    )
    np.testing.assert_allclose(product, X @ W + X @ a.T @ b.T, rtol=1e-4, atol=1e-4)


def test_no_step_converts_adapters():
    model = openvino_model()
    openvino_linears.add_lora(model, ALL)
    openvino_linears.narrow_adapters(model, None)
    compiled = ov.Core().compile_model(model, "CPU")
    readers = {
        node.get_friendly_name(): [
            port.get_node().get_rt_info()["layerType"].value for port in node.output(0).get_target_inputs()
        ]
        for node in compiled.get_runtime_model().get_ordered_ops()
        if node.get_friendly_name().startswith(("adapters.a.", "adapters.b."))
    }
    assert list(readers.values()) == [["MatMul"]] * 4


@pytest.mark.parametrize(
    ("weight", "node", "linear"),
    [
        ("model.model.layers.0.self_attn.q_proj.weight.T", "node_linear", "layers.0.self_attn.q_proj"),
        ("model.layers.1.mlp.down_proj.weight", "", "layers.1.mlp.down_proj"),
        ("onnx::MatMul_7", "/model/layers.2/self_attn/o_proj/MatMul", "layers.2.self_attn.o_proj"),
        ("model.layers.3.attn.qkv_proj.MatMul.weight", "/x", "layers.3.self_attn.qkv_proj"),
        ("w", "/model/layers.4/attn/v_proj/MatMul_Q4", "layers.4.self_attn.v_proj"),
        ("blk.5.ffn_gate", "", "layers.5.mlp.gate_proj"),
        ("blk.6.attn_output.int8", "", "layers.6.self_attn.o_proj"),
        ("blk.7.ffn_down_shexp", "", "layers.7.mlp.shared_expert.down_proj"),
        ("model.layers.8.mlp.shared_experts.up_proj.weight", "", "layers.8.mlp.shared_expert.up_proj"),
    ],
)
def test_onnx_products_are_found_by_the_names_of_weights_or_nodes(weight, node, linear):
    model = onnx_graph([(weight, node), ("lm_head.weight", "/lm_head/MatMul"), ("blk.0.ffn_down_exps", "")])
    shapes = onnx_linears.add_lora(model.graph, ALL)
    assert shapes == {linear: LinearShape(8, 12)}
    weights = adapter(linear, 2, 12)
    inputs = feed(shapes, {7: weights}, [7, 0], [3, 2])
    product = compute(model, inputs)
    wanted = X @ W
    wanted[:3] += more(weights, linear, X[:3])
    np.testing.assert_allclose(product[0], wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(product[1], X @ W, rtol=1e-4, atol=1e-4)


def test_products_that_a_gguf_file_joins_are_found_where_they_are_split():
    model = onnx_graph([("blk.0.attn_q.and.int8", "")], split=True)
    names = [f"layers.0.self_attn.{each}_proj" for each in "qkv"]
    shapes = onnx_linears.add_lora(model.graph, frozenset({"q_proj", "k_proj"}))
    assert shapes == dict.fromkeys(names[:2], LinearShape(8, 4))
    weights = adapter(names[1], 2, 4)
    found = compute(model, feed(shapes, {1: weights}, [1], [5]))
    plain = np.split(X @ W, 3, axis=1)
    np.testing.assert_allclose(found[0], plain[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1], plain[1] + more(weights, names[1], X), rtol=1e-4, atol=1e-4)


def compute(model: ir.Model, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return [each[0] for each in session.run(None, {"x": X[None], **given})]


def test_a_module_that_is_called_twice_is_one_product():
    name = "layers.0.mlp.up_proj"
    graph = onnx_graph(
        [("model.layers.0.mlp.up_proj.weight", ""), ("w", "/model/layers.0/mlp/up_proj/MatMul_1")]
    )
    shapes = onnx_linears.add_lora(graph.graph, ALL)
    rows = ops.parameter([-1, 1, 8], np.float32, name="rows")
    products = [
        ops.matmul(rows, ops.constant(W), False, False, name=f"model.{name}/{place}") for place in "ab"
    ]
    model = ov.Model([ops.result(product) for product in products], [rows])
    assert openvino_linears.add_lora(model, ALL) == shapes == {name: LinearShape(8, 12)}
    weights = adapter(name, 2, 12)
    inputs = feed(shapes, {1: weights}, [1], [5])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    both = [
        *compute(graph, inputs),
        *(output[:, 0] for output in compiled({"rows": X[:, None], **inputs}).values()),
    ]
    for output_rows in both:
        np.testing.assert_allclose(output_rows, X @ W + more(weights, name, X), rtol=1e-4, atol=1e-4)


def test_a_graph_without_targets_gets_nothing_and_one_without_products_is_refused():
    model = openvino_model()
    before = [node.get_friendly_name() for node in model.get_ordered_ops()]
    assert openvino_linears.add_lora(model, frozenset({"k_proj"})) == {}
    assert [node.get_friendly_name() for node in model.get_ordered_ops()] == before
    graph = onnx_graph([("model.layers.0.self_attn.q_proj.weight", "")]).graph
    assert onnx_linears.add_lora(graph, frozenset({"k_proj"})) == {}
    assert [value.name for value in graph.inputs] == ["x"]
    with pytest.raises(ModelError, match="none of its linear layers is named as the `targets`"):
        check_linears(Path("model.onnx"), {})
    with pytest.raises(ModelError, match="attends to an encoder"):
        check_linears(Path("model.onnx"), {"layers.0.q": LinearShape(8, 8)}, encoder_hidden_size=4)


def test_a_set_of_adapters_is_given_once_and_few_sets_are_kept():
    shapes, names = {"layers.0.q": LinearShape(8, 12)}, []
    inputs = AdapterInputs(shapes, lambda name, array: names.append(name))
    for number in range(1, 9):
        inputs.put(number, adapter("layers.0.q", 2, 12))

    def step(*adapters: int) -> int:
        """How many arrays a step of these gives."""
        names.clear()
        inputs.of(np.array(adapters, np.int32), np.arange(len(adapters) + 1), 8, ALL_ROWS)
        return len(names)

    assert [step(), step()] == [3, 0]  # the base's: A, B and whose a token is
    assert [step(1, 0, 2), step(2, 1), step(2, 0)] == [2, 0, 0]  # what has half of its columns used stays
    assert [step(3), step(), step(3), step(4)] == [2, 3, 2, 2]
    inputs.drop(4)
    assert len(names) == 2 + 3  # what reads an adapter that left reads nothing
    stacks = AdapterStacks(shapes)
    for number in range(1, 9):
        stacks.put(number, adapter("layers.0.q", 2, 12))
        stacks.of(np.array([number], np.int32))
    assert len(stacks._stored) == MAX_SETS
    assert stacks.of(np.array([8], np.int32)) is stacks.of(np.array([8, 0], np.int32))

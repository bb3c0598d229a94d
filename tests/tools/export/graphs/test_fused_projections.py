"""Products of the same rows are exported as one, and adapters find each of them in it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from pipelines.adapters.weights import LinearShape
from pipelines.inference.backends.onnx.named_linears import find_linears
from tools.export.graphs.fused_projections import fuse_projections
from tools.export.graphs.parameters import parameter
from tools.export.graphs.quantizing import quantize

HIDDEN, TOKENS = 64, 5
SIZES = {"q_proj": 64, "k_proj": 32, "v_proj": 32}


def graph_of(sizes: dict[str, int] = SIZES, rows: dict[str, str] | None = None) -> ir.Model:
    """Products of `rows`, each of one input; named as the trace does."""
    rng = np.random.default_rng(7)
    names = rows or dict.fromkeys(sizes, "rows")
    inputs = {name: ir.val(name, ir.DataType.FLOAT, [1, TOKENS, HIDDEN]) for name in set(names.values())}
    graph = ir.Graph(list(inputs.values()), [], nodes=[], opset_imports={"": 23}, name="products")
    for part, size in sizes.items():
        values = rng.standard_normal((HIDDEN, size), np.float32)
        weight = parameter(graph, f"model.layers.0.self_attn.{part}.weight.T", values)
        node = ir.node("MatMul", [inputs[names[part]], weight], name=f"node_{part}")
        node.outputs[0].name, node.outputs[0].dtype = part, ir.DataType.FLOAT
        graph.append(node)
        graph.outputs.append(node.outputs[0])
    return ir.Model(graph, ir_version=10)


def computed(model: ir.Model) -> list[np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    values = np.random.default_rng(1).standard_normal((1, TOKENS, HIDDEN), np.float32)
    return session.run(None, {each.name: values for each in session.get_inputs()})


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize("weights", ["fp32", "int8", "int4"])
def test_one_product_gives_what_several_gave(weights):
    alone, joined = (graph_of() if weights == "fp32" else quantize(graph_of(), weights) for _ in range(2))
    linear = "MatMul" if weights == "fp32" else "MatMulNBits"
    assert operators(alone) == [linear] * 3
    assert operators(fuse_projections(joined)) == [linear, "Split"]
    assert [output.name for output in joined.graph.outputs] == list(SIZES)
    for expected, found in zip(computed(alone), computed(joined), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_adapters_find_the_parts():
    found = {
        each.name: (each.out.name, each.shape) for each in find_linears(fuse_projections(graph_of()).graph)
    }
    assert found == {
        f"layers.0.self_attn.{part}": (part, LinearShape(HIDDEN, size)) for part, size in SIZES.items()
    }


def test_products_of_other_rows_or_types_stay_alone():
    of_others = graph_of(rows={"q_proj": "rows", "k_proj": "others", "v_proj": "rows"})
    assert operators(fuse_projections(of_others)) == ["MatMul"] * 3
    mixed = graph_of()
    values = mixed.graph.initializers["model.layers.0.self_attn.q_proj.weight.T"]
    values.const_value = ir.tensor(values.const_value.numpy().astype(np.float64), name=values.name)
    values.dtype = ir.DataType.DOUBLE
    assert operators(fuse_projections(mixed)) == ["MatMul", "MatMul", "Split"]
    assert [linear.name for linear in find_linears(mixed.graph)] == [
        f"layers.0.self_attn.{part}" for part in SIZES
    ]


def test_a_weight_that_is_read_twice_stays_alone():
    model = graph_of({"gate_proj": 128, "up_proj": 128})
    first = model.graph[0]
    again = ir.node("MatMul", list(first.inputs), name="again")
    again.outputs[0].name, again.outputs[0].dtype = "again", ir.DataType.FLOAT
    model.graph.append(again)
    model.graph.outputs.append(again.outputs[0])
    assert operators(fuse_projections(model)) == ["MatMul"] * 3

"""Finds the linear layers of a graph in Braid's ONNX form by the names of their weights or nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import onnx_ir as ir

from pipelines.adapters.linear_names import PARTS, last_name, named_linear, parts_of
from pipelines.adapters.weights import LinearShape
from pipelines.inference.backends.onnx.graph_rewrites import CONTRIB, constant
from pipelines.onnx_format.decoder_format import AND, DOMAIN, GGUF_LINEAR

F32 = ir.DataType.FLOAT
PASSED_ON = frozenset({"Cast", "DequantizeLinear", "Identity", "Transpose"})
"""Operators that may stand between a weight and its linear layer."""
_GGUF = re.compile(r"blk\.(\d+)\.(\w+?)(\.and)?(?:\.int\d+)?")
GGUF_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
"""What GGUF files call them: linear layers of the same rows may be one, named after the first."""


class NamedLinear(NamedTuple):
    """`out` = `rows` · weight, or a part of that; `dtype` is the type of both."""

    name: str
    rows: ir.Value
    out: ir.Value
    shape: LinearShape
    dtype: ir.DataType


def find_linears(graph: ir.Graph) -> Iterator[NamedLinear]:
    """The linear layers that are named as in the checkpoint of the model."""
    for node in graph:
        whole = linear_of(node, "")
        if whole is None:
            continue
        for name, part, size_out in _named(node, _weight_name(node), whole.out, whole.shape.size_out):
            yield NamedLinear(name, whole.rows, part, LinearShape(whole.shape.size_in, size_out), whole.dtype)


def linear_of(node: ir.Node, name: str) -> NamedLinear | None:
    """The node as a linear layer of this name, None for one that is none or of an unknown size."""
    (rows, *_), out, size = (*node.inputs, None), node.outputs[0], _sizes(node)
    if size is None:
        return None
    values = () if _is_in_gguf(node) else (rows, out, _numbers(node))
    dtype = next((value.dtype for value in values if value is not None and value.dtype), None)
    dtype = F32 if _is_in_gguf(node) else dtype
    return (
        None if rows is None or size is None or dtype is None else NamedLinear(name, rows, out, size, dtype)
    )


def _is_in_gguf(node: ir.Node) -> bool:
    """Whether a linear layer has its weight in a GGUF file; it computes in float32."""
    return (node.domain, node.op_type) == (DOMAIN, GGUF_LINEAR)


def _weight_name(node: ir.Node) -> str:
    if _is_in_gguf(node):
        return node.attributes["weight"].as_string()
    weight = _weight(node)
    return "" if weight is None else weight.name or ""


def _weight(node: ir.Node) -> ir.Value | None:
    """The weight that the node multiplies its rows by."""
    if (node.domain, node.op_type) not in {("", "MatMul"), ("", "Gemm"), (CONTRIB, "MatMulNBits")}:
        return None
    weight = node.inputs[1]
    while weight is not None and (above := weight.producer()) is not None and above.op_type in PASSED_ON:
        weight = above.inputs[0]
    return weight if weight is not None and weight.is_initializer() else None


def _numbers(node: ir.Node) -> ir.Value | None:
    """What has the type of the linear layer: its weight, or the scales of that."""
    return node.inputs[2] if node.op_type == "MatMulNBits" else node.inputs[1]


def _sizes(node: ir.Node) -> LinearShape | None:
    """The size of a node that is a linear layer; None where it is not known."""
    weight = _weight(node)
    if _is_in_gguf(node) or (weight is not None and node.op_type == "MatMulNBits"):
        return LinearShape(node.attributes["K"].as_int(), node.attributes["N"].as_int())
    if weight is None or weight.shape is None or len(weight.shape) != 2 or not weight.shape.is_static():
        return None
    first, second = weight.shape.numpy()
    transposes = [above for above in _above(node) if above.op_type == "Transpose"]
    is_transposed = len(transposes) % 2 == 1
    if node.op_type == "Gemm" and (how := node.attributes.get("transB")) is not None and how.as_int():
        is_transposed = not is_transposed
    return LinearShape(second, first) if is_transposed else LinearShape(first, second)


def _above(node: ir.Node) -> Iterator[ir.Node]:
    value = node.inputs[1]
    while value is not None and (above := value.producer()) is not None and above.op_type in PASSED_ON:
        yield above
        value = above.inputs[0]


def _named(node: ir.Node, weight: str, out: ir.Value, size_out: int) -> list[tuple[str, ir.Value, int]]:
    """The names of what the node computes, each with its value and size."""
    found = _GGUF.fullmatch(weight)
    name = named_linear(weight, node.name or "") if found is None else _gguf_name(found, out)
    if name is None:
        return []
    return _parts(name.removesuffix(AND), out) if name.endswith(AND) else [(name, out, size_out)]


def _gguf_name(found: re.Match[str], out: ir.Value) -> str | None:
    """The name of a linear layer that a converted GGUF file has."""
    layer, last = f"layers.{found[1]}.", GGUF_NAMES.get(found[2])
    if last is None:
        return None
    if last == "mlp.up_proj" and not found[3] and any(user.op_type == "Split" for user, _ in out.uses()):
        last = "mlp.gate_up_proj"
    return f"{layer}{last}{found[3] or ''}"


def _parts(first: str, out: ir.Value) -> list[tuple[str, ir.Value, int]]:
    """The parts of linear layers that are computed as one, at the split whose first part is `first`."""
    split = next(user for user, _ in out.uses() if user.op_type == "Split")
    sizes = constant(split.inputs[1])
    assert sizes is not None
    whole = next(whole for whole, parts in PARTS.items() if last_name(first) in parts)
    parts = parts_of(first.removesuffix(last_name(first)) + whole)
    of_parts = zip(parts[parts.index(first) :], split.outputs, sizes.numpy().tolist(), strict=False)
    return [(name, part, int(size)) for name, part, size in of_parts]

"""Converts a decoder with `past_key_values.*` inputs, as optimum exports it.

Three places are stable in such graphs over families and versions: new keys and values are concatenated to the
past's, scores go through a Softmax, and its result is multiplied with the values.  Everything else is
token-wise, so it computes one packed row of tokens as a batch of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from pipelines.inference.backends.declared_attention import read_attention_windows
from pipelines.inference.backends.onnx.graph_rewrites import (
    INPUT_SHAPES,
    NodeInserter,
    constant,
    constant_number,
    ensure_input,
    gather_logit_rows,
    insert_attention,
    remove_unused_nodes,
    restrict_inputs,
    upgrade_opset,
)
from pipelines.inference.contracts.device_errors import EXPORT_ADVICE, ModelError
from pipelines.onnx_format.decoder_format import POSITION_IDS, AttentionLayer

PAST = "past_key_values.{layer}.{side}"
MERGED = "use_cache_branch"
"""The input with which a merged export chooses between its graphs with and without a past."""
UNTOUCHED = frozenset({"Cast", "Dropout", "Identity"})
REPEATS = UNTOUCHED | {"Expand", "Reshape", "Transpose", "Unsqueeze"}
"""Operators that repeat key-value heads for their queries and transpose keys."""
NEVER_OF_MASKS = frozenset({"Exp", "Log", "MatMul", "Pow"})
SCORES = UNTOUCHED | {"Clip", "Max", "Reshape"}


def is_optimum(graph: ir.Graph) -> bool:
    """Whether the graph has an input for the past of each layer."""
    return any(str(value.name).startswith("past_key_values.") for value in graph.inputs)


def rewrite_optimum(model: ir.Model, fields: Mapping[str, Any]) -> None:
    """Convert the model to Braid's format, in place; `fields` are config.json's.  Raises `ModelError`."""
    graph = model.graph
    if any(value.name == MERGED for value in graph.inputs):
        raise ModelError(
            "This is a merged export, two graphs behind an If; Braid reads decoders of one graph. "
            f"Export again without merging (optimum-cli export onnx --no-post-process). {EXPORT_ADVICE}"
        )
    upgrade_opset(model)
    pasts = list(_pasts(graph))
    windows = read_attention_windows(fields, len(pasts))
    for number, (key, value) in enumerate(pasts):
        _rewrite_layer(graph, number, _past(key, number), _past(value, number), windows[number], fields)
    gather_logit_rows(graph, axis=1)
    remove_unused_nodes(model)
    _read_positions_input(graph)
    remove_unused_nodes(model)
    restrict_inputs(graph)


# Attention


@dataclass(frozen=True)
class _Past:
    """One side of a layer's cache: its concatenation with the new tokens, and the new [1, heads, T, size]."""

    joined: ir.Value
    new: ir.Value
    heads: int
    size: int
    dtype: ir.DataType


def _pasts(graph: ir.Graph) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The inputs for keys and values, layer by layer from 0 on."""
    inputs = {value.name: value for value in graph.inputs}
    sides = [PAST.format(layer="{layer}", side=side) for side in ("key", "value")]
    layer = 0
    while all(side.format(layer=layer) in inputs for side in sides):
        yield inputs[sides[0].format(layer=layer)], inputs[sides[1].format(layer=layer)]
        layer += 1
    names = [name for name in inputs if str(name).startswith("past_key_values.")]
    if len(names) != 2 * layer:
        raise ModelError(
            f"The export has {len(names)} pasts, of which {2 * layer} are keys and values of layers 0 to "
            f"{layer - 1}: Braid serves decoders in which every layer has keys and values. {EXPORT_ADVICE}"
        )


def _past(past: ir.Value, layer: int) -> _Past:
    shape = past.shape
    if shape is None or len(shape) != 4 or not isinstance(shape[1], int) or not isinstance(shape[3], int):
        raise _unknown(layer, f"{past.name} is not [batch, heads, tokens, size] with fixed heads and size")
    join = next((node for node in past.consumers() if node.op_type == "Concat"), None)
    if join is None or len(join.inputs) != 2 or join.attributes["axis"].as_int() not in (2, -2):
        raise _unknown(layer, f"{past.name} is not concatenated to the new tokens'")
    new = next(value for value in join.inputs if value is not past)
    assert new is not None
    return _Past(join.outputs[0], new, shape[1], shape[3], past.dtype or ir.DataType.FLOAT)


def _rewrite_layer(
    graph: ir.Graph, number: int, key: _Past, value: _Past, window: int, fields: Mapping[str, Any]
) -> None:
    softmax = _softmax(key.joined, number)
    mixed = _mixed(softmax, value, number)
    scores = _scores(softmax.inputs[0], key, number)
    if key.size != value.size or scores is None:
        raise _unknown(number, "queries and keys do not meet in one MatMul, scaled by constants")
    layer = AttentionLayer(
        layer=number,
        num_heads=_num_heads(fields, key),
        num_kv_heads=key.heads,
        head_size=key.size,
        scale=scores.scale,
        window=window,
        softcap=scores.softcap or float(fields.get("attn_logit_softcapping") or 0.0),
    )
    attended = insert_attention(
        NodeInserter(graph, mixed), layer, scores.query, key.new, value.new, key.dtype
    )
    mixed.outputs[0].replace_all_uses_with(attended)


def _num_heads(fields: Mapping[str, Any], key: _Past) -> int:
    heads = fields.get("num_attention_heads", fields.get("n_head", key.heads))
    return int(heads)


def _softmax(keys: ir.Value, layer: int) -> ir.Node:
    """The first Softmax after the keys, nearest first."""
    for node in _after(keys):
        if node.op_type == "Softmax":
            return node
    raise _unknown(layer, "no Softmax follows its keys")


def _mixed(softmax: ir.Node, value: _Past, layer: int) -> ir.Node:
    """The MatMul of scores and values."""
    for node in _after(softmax.outputs[0]):
        if node.op_type == "MatMul":
            if _climb(node.inputs[1], REPEATS, value.size)[0] is value.joined:
                return node
            break
    raise _unknown(layer, "its scores are not multiplied with its values")


def _after(value: ir.Value) -> Iterator[ir.Node]:
    """The nodes that depend on a value, breadth first."""
    seen: set[ir.Node] = set()
    queue = [value]
    while queue:
        for node in queue.pop(0).consumers():
            if node not in seen:
                seen.add(node)
                yield node
                queue += node.outputs


@dataclass(frozen=True)
class _Scores:
    """The formula of the scores: softcap * tanh(query . key * scale / softcap), without tanh when softcap
    is 0.
    """

    query: ir.Value
    scale: float
    softcap: float = 0.0


def _scores(value: ir.Value | None, key: _Past, layer: int) -> _Scores | None:
    """Follow the Softmax's input back over masks, factors and a cap to the MatMul of queries and keys.

    None when `value` does not come from such a MatMul, as for a mask.
    """
    value, after = _climb(value, SCORES, key.size)
    node = None if value is None else value.producer()
    if node is None or node.domain != "":
        return None
    if node.op_type == "MatMul":
        return _linears(node, key, after)
    if node.op_type == "Tanh":
        inner = _scores(node.inputs[0], key, layer)
        return None if inner is None else _Scores(inner.query, inner.scale * after, after)
    if node.op_type in ("Add", "Where"):  # a mask, added or chosen
        branches = [_scores(value, key, layer) for value in node.inputs]
        scores = next((branch for branch in branches if branch is not None), None)
        if scores is None or (scores.softcap and after != 1.0):
            return None
        _check_masks(
            [value for value, branch in zip(node.inputs, branches, strict=True) if not branch], layer
        )
        return _Scores(scores.query, scores.scale * after, scores.softcap)
    return None


def _check_masks(values: list[ir.Value | None], layer: int) -> None:
    """Raise `ModelError` when a value added to the scores is more than a mask, which the format cannot
    express.

    A mask is made of comparisons and single numbers.  ALiBi has a slope for each head, a relative position a
    weight for each distance; taken for a mask, either would be lost without an error.
    """
    for value in _before(values):
        node, tensor = value.producer(), constant(value)
        floats = tensor is not None and tensor.size > 1 and tensor.dtype.is_floating_point()
        if floats or (node is not None and node.op_type in NEVER_OF_MASKS):
            what = node.op_type if node is not None else value.name
            raise _unknown(layer, f"{what} is added to its scores, as for ALiBi or relative positions")


def _before(values: list[ir.Value | None], of_shapes: bool = False) -> Iterator[ir.Value]:
    """The values and all that they are computed from; by default without those that only give a shape."""
    queue = [value for value in values if value is not None]
    seen: set[ir.Value] = set()
    while queue:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        node = value.producer()
        if node is not None and (of_shapes or node.op_type != "Shape"):
            queue += [value for value in node.inputs if value is not None]


def _linears(node: ir.Node, key: _Past, factor: float) -> _Scores | None:
    keys, of_keys = _climb(node.inputs[1], REPEATS, key.size)
    query, of_query = _climb(node.inputs[0], UNTOUCHED, key.size)
    if keys is not key.joined or query is None:
        return None
    return _Scores(query, factor * of_keys * of_query)


def _climb(value: ir.Value | None, through: frozenset[str], size: int) -> tuple[ir.Value | None, float]:
    """Follow a value back over operators of `through` and constant factors: (origin, linear layer of
    factors).
    """
    factor = 1.0
    while value is not None and (node := value.producer()) is not None and node.domain == "":
        if node.op_type in through:
            value = node.inputs[0]
            continue
        step = _factor(node, size)
        if step is None:
            break
        value, factor = step[0], factor * step[1]
    return value, factor


def _factor(node: ir.Node, size: int) -> tuple[ir.Value, float] | None:
    """(what is scaled, by what) for a Mul or Div with a known number."""
    if node.op_type not in ("Mul", "Div"):
        return None
    left, right = node.inputs
    if (known := _number(right, size)) is not None and left is not None:
        return left, known if node.op_type == "Mul" else 1.0 / known
    if node.op_type == "Mul" and (known := _number(left, size)) is not None and right is not None:
        return right, known
    return None


def _number(value: ir.Value | None, size: int) -> float | None:
    """A scalar that is the same in every run, else None.

    Older exports compute 1 / sqrt(head_size) in the graph, from the last axis of a shape.
    """
    if constant(value) is not None:
        return constant_number(value)
    node = None if value is None else value.producer()
    if node is None or node.domain != "":
        return None
    if node.op_type in UNTOUCHED | {"Squeeze", "Unsqueeze", "Reshape"}:
        return _number(node.inputs[0], size)
    if node.op_type == "Sqrt":
        inner = _number(node.inputs[0], size)
        return None if inner is None else math.sqrt(inner)
    if node.op_type in ("Slice", "Gather"):
        return float(size) if _is_last_of_shape(node) else None
    if (scaled := _factor(node, size)) is not None:
        inner = _number(scaled[0], size)
        return None if inner is None else inner * scaled[1]
    return None


def _is_last_of_shape(node: ir.Node) -> bool:
    """Whether the node reads the last of four axes of a shape."""
    shape = node.inputs[0].producer() if node.inputs[0] is not None else None
    first = constant_number(node.inputs[1])
    return shape is not None and shape.op_type == "Shape" and first in (3, -1)


# Positions


def _read_positions_input(graph: ir.Graph) -> None:
    """Read positions from the input where the graph counts them itself from the past's length on.

    Attention and masks are removed before, so every Range that is left and depends on a past counts
    positions.
    """
    ranges = [node for node in graph if node.op_type == "Range" and _reads_past(node)]
    if not ranges:
        return
    positions = ensure_input(graph, POSITION_IDS, INPUT_SHAPES[POSITION_IDS])
    for node in ranges:
        writer = NodeInserter(graph, node)
        flat = writer.op("Reshape", positions, writer.ints(-1))
        node.outputs[0].replace_all_uses_with(flat)


def _reads_past(node: ir.Node) -> bool:
    names = (
        str(value.name) for value in _before(list(node.inputs), of_shapes=True) if value.is_graph_input()
    )
    return any(name.startswith(("past_key_values.", "attention_mask")) for name in names)


def _unknown(layer: int, reason: str) -> ModelError:
    return ModelError(
        f"Attention of layer {layer} is written in a way that Braid does not read: {reason}. {EXPORT_ADVICE}"
    )

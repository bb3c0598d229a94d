"""Converts a decoder with ONNX Runtime's own attention, as onnxruntime-genai's builder exports it.

`com.microsoft::PagedAttention` computes packed rows [T, width] and `GroupQueryAttention` [1, T, width].  Both
accept queries, keys and values in one tensor, and normalize and rotate them; the node of Braid's format does
none of it, so these operations are written as nodes before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from pipelines.inference.backends.onnx.graph_rewrites import (
    CONTRIB,
    INPUT_SHAPES,
    NodeInserter,
    attribute_number,
    constant,
    ensure_input,
    gather_logit_rows,
    insert_attention,
    remove_unused_nodes,
    restrict_inputs,
    upgrade_opset,
)
from pipelines.inference.contracts.device_errors import EXPORT_ADVICE, ModelError
from pipelines.onnx_format.decoder_format import INPUT_IDS, POSITION_IDS, AttentionLayer

PAGED, GROUPED = "PagedAttention", "GroupQueryAttention"
COMMON = ("query", "key", "value", "past_key", "past_value")
INPUTS = {
    PAGED: (
        *COMMON,
        *(
            "cumulative_sequence_length",
            "past_seqlens",
            "block_table",
            "cos_cache",
            "sin_cache",
            "slot_mapping",
        ),
        *("head_sink", "q_norm_weight", "k_norm_weight", "k_scale", "v_scale", "attention_metadata"),
    ),
    GROUPED: (
        *COMMON,
        *("seqlens_k", "total_sequence_length", "cos_cache", "sin_cache", "position_ids", "attention_bias"),
        *("head_sink", "k_scale", "v_scale", "q_norm_weight", "k_norm_weight"),
    ),
}
"""Operator → the names of its inputs, in the order of its schema (ONNX Runtime 1.31)."""
REFUSED = ("attention_bias",)
"""Inputs that change the scores in a way that Braid's format cannot express."""
PLAIN = {"is_causal": 1, "causal": 1, "rotary_offset": 0, "v_head_size": 0, "smooth_softmax": 0}
"""Attribute → the only value that Braid's format can express."""


def is_genai(graph: ir.Graph) -> bool:
    """Whether the graph contains ONNX Runtime's own attention."""
    return bool(_attentions(graph))


def _attentions(graph: ir.Graph) -> list[ir.Node]:
    return [node for node in graph if node.domain == CONTRIB and node.op_type in INPUTS]


def rewrite_genai(model: ir.Model, fields: Mapping[str, Any]) -> None:
    """Convert the model to Braid's format, in place; `fields` are config.json's.  Raises `ModelError`."""
    graph = model.graph
    upgrade_opset(model)
    nodes = _attentions(graph)
    packed = {node.op_type for node in nodes} == {PAGED}
    _check_pasts(nodes)
    positions = ensure_input(graph, POSITION_IDS, INPUT_SHAPES[POSITION_IDS])
    for number, node in enumerate(nodes):
        _rewrite(graph, node, number, positions, fields)
    if packed:
        _add_batch_axis(graph)
    gather_logit_rows(graph, axis=0 if packed else 1)
    remove_unused_nodes(model)
    restrict_inputs(graph)


def _check_pasts(nodes: list[ir.Node]) -> None:
    """Raise `ModelError` unless every attention node has a cache of its own."""
    if len({node.inputs[3] for node in nodes}) < len(nodes):
        raise ModelError(
            f"Layers of this export share one cache, which Braid does not serve. {EXPORT_ADVICE}"
        )


def _add_batch_axis(graph: ir.Graph) -> None:
    """Braid's ids have the shape [1, T]; the export reads [T]."""
    row = ensure_input(graph, INPUT_IDS, INPUT_SHAPES[INPUT_IDS])
    readers = list(row.uses())
    writer = NodeInserter(graph, graph[0])
    flat = writer.op("Squeeze", row, writer.ints(0))
    for use in readers:
        use.node.replace_input_with(use.idx, flat)


# One layer


@dataclass(frozen=True)
class _Rows:
    """Queries, keys or values: [..., T, heads * head_size], to be split into [1, heads, T, head_size]."""

    value: ir.Value
    heads: int
    norm: ir.Value | None = None


def _rewrite(
    graph: ir.Graph, node: ir.Node, number: int, positions: ir.Value, fields: Mapping[str, Any]
) -> None:
    inputs = dict(zip(INPUTS[node.op_type], node.inputs, strict=False))
    _check_plain(node, inputs, number)
    layer = _layer(node, inputs, number, fields)
    writer = NodeInserter(graph, node)
    query, key, value = (
        _by_heads(writer, rows, node, layer.head_size) for rows in _rows(writer, node, inputs, layer)
    )
    if attribute_number(node, "do_rotary", 0):
        rotary = _Rotary(inputs.get("cos_cache"), inputs.get("sin_cache"), positions)
        query, key = (rotary.rotate(writer, heads, node, layer.head_size) for heads in (query, key))
    attended = insert_attention(writer, layer, query, key, value, _dtype(inputs), inputs.get("head_sink"))
    by_token = writer.op("Transpose", attended, perm=[0, 2, 1, 3])
    shape = [] if node.op_type == PAGED else [1]
    flat = writer.op("Reshape", by_token, writer.ints(*shape, -1, layer.num_heads * layer.head_size))
    node.outputs[0].replace_all_uses_with(flat)


def _check_plain(node: ir.Node, given: Mapping[str, ir.Value | None], number: int) -> None:
    found = [name for name in REFUSED if given.get(name) is not None]
    found += [name for name, plain in PLAIN.items() if attribute_number(node, name, plain) != plain]
    layout = node.attributes.get("kv_cache_layout")
    found += ["kv_cache_layout"] if layout is not None and layout.as_string() != "SEPARATE" else []
    if found:
        raise ModelError(
            f"{node.op_type} of layer {number} uses {', '.join(found)}, which Braid does not serve. "
            f"{EXPORT_ADVICE}"
        )


def _layer(
    node: ir.Node, inputs: Mapping[str, ir.Value | None], number: int, fields: Mapping[str, Any]
) -> AttentionLayer:
    """The node's attributes.  `local_window_size` of both operators includes the query itself, as the
    format's window.

    (Measured on the CPU kernel of GroupQueryAttention; the CUDA kernels pass one token less to
    FlashAttention, which counts the tokens to the left of the query.)
    """
    heads = int(attribute_number(node, "num_heads", 0))
    size = _head_size(inputs["past_key"], heads, fields, number)
    window = int(attribute_number(node, "local_window_size", -1))
    return AttentionLayer(
        layer=number,
        num_heads=heads,
        num_kv_heads=int(attribute_number(node, "kv_num_heads", heads)),
        head_size=size,
        scale=float(attribute_number(node, "scale", 0.0)) or 1.0 / math.sqrt(size),
        window=window if window > 0 else -1,
        softcap=float(attribute_number(node, "softcap", 0.0)),
        has_sinks=inputs.get("head_sink") is not None,
    )


def _head_size(past: ir.Value | None, heads: int, fields: Mapping[str, Any], number: int) -> int:
    """From the cache's shape; from config.json when the cache is quantized: it may pack two numbers in
    one.
    """
    last = past.shape[-1] if past is not None and past.shape is not None else None
    if isinstance(last, int) and past is not None and past.dtype in FLOATS:
        return last
    if isinstance(size := fields.get("head_dim"), int):
        return size
    if isinstance(width := fields.get("hidden_size"), int):
        return width // heads
    raise ModelError(f"Neither the cache of layer {number} nor config.json gives the size of its heads.")


FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _dtype(given: Mapping[str, ir.Value | None]) -> ir.DataType:
    """The type in which attention is computed."""
    known = [value.dtype for name in COMMON if (value := given.get(name)) is not None]
    return next((dtype for dtype in known if dtype in FLOATS), ir.DataType.FLOAT16)


def _rows(
    writer: NodeInserter, node: ir.Node, inputs: Mapping[str, ir.Value | None], layer: AttentionLayer
) -> list[_Rows]:
    """Queries, keys and values, split when they are in one tensor."""
    heads = [layer.num_heads, layer.num_kv_heads, layer.num_kv_heads]
    query, key, value = inputs["query"], inputs.get("key"), inputs.get("value")
    if query is None or (key is None) != (value is None):
        raise ModelError(f"{node.op_type} of layer {layer.layer} lacks one of query, key and value.")
    if key is None or value is None:
        query, key, value = writer.split(query, [num_heads * layer.head_size for num_heads in heads])
    norms = (inputs.get("q_norm_weight"), inputs.get("k_norm_weight"), None)
    return [_Rows(*parts) for parts in zip((query, key, value), heads, norms, strict=True)]


def _by_heads(writer: NodeInserter, rows: _Rows, node: ir.Node, size: int) -> ir.Value:
    value = writer.op("Reshape", rows.value, writer.ints(1, -1, rows.heads, size))
    if rows.norm is not None:
        epsilon = float(attribute_number(node, "qk_norm_epsilon", 1e-6))
        value = writer.op("RMSNormalization", value, rows.norm, axis=-1, epsilon=epsilon)
    return writer.op("Transpose", value, perm=[0, 2, 1, 3])


@dataclass(frozen=True)
class _Rotary:
    """Cosines and sines float[positions, half], for the first 2 * half numbers of each head."""

    cos: ir.Value | None
    sin: ir.Value | None
    positions: ir.Value

    def rotate(self, writer: NodeInserter, value: ir.Value, node: ir.Node, size: int) -> ir.Value:
        """Rotate `value` [1, heads, T, size] by position."""
        table = constant(self.cos)
        if table is None or constant(self.sin) is None:
            raise ModelError(
                f"{node.op_type} {node.name} takes rotary angles that are computed in the graph, as for "
                f"long contexts; Braid reads fixed ones. {EXPORT_ADVICE}"
            )
        rotary_dim = 2 * table.shape.numpy()[-1]
        return writer.op(
            "RotaryEmbedding",
            value,
            self.cos,
            self.sin,
            self.positions,
            interleaved=int(attribute_number(node, "rotary_interleaved", 0)),
            rotary_embedding_dim=0 if rotary_dim == size else rotary_dim,  # 0 is all of it
        )

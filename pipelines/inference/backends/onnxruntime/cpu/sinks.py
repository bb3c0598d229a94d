"""Attention with sinks by operators that have none: one more key, of value 0, stands for them.

A softmax does not change when the same number is added to all scores of a query.  So in place of a score of
`sink` beside the others, the others lose `sink`, and the score of one more key is 0.  Queries and keys get
one more number for it: -sink / scale, and 1 in all keys but that one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.inference.backends.onnxruntime.graph_writer import GraphWriter
from pipelines.onnx_format.decoder_format import SINKS, AttentionLayer

ONE_MORE_NUMBER = (0, 0, 0, 0, 0, 0, 0, 1)
"""How far [1, tokens, heads, size] is padded: behind the last axis."""


class Operands(NamedTuple):
    """Queries [1, T, heads, size], and keys and values [B, K, their heads · size] of the node."""

    query: ir.Value
    keys: ir.Value
    values: ir.Value


def with_sinks(writer: GraphWriter, node: ir.Node, layer: AttentionLayer, plain: Operands) -> Operands:
    """The operands of attention without sinks that gives what `node` does with them: heads have one more
    number in queries and keys, and there is one more key, the last, which all queries see.
    """
    op, ints, size = writer.op, writer.ints, layer.head_size
    dtype, sinks = _numbers(node)
    zero, unit = (writer.constant(f"sinks.{number}.{dtype}", np.array(number, dtype)) for number in (0, 1))
    added = np.zeros((layer.num_heads, size + 1), dtype)
    added[:, size] = -sinks / layer.scale
    wide = op("Pad", plain.query, ints(*ONE_MORE_NUMBER), zero)
    query = op("Add", wide, writer.constant(f"sinks.{layer.layer}", added))
    heads = op("Reshape", plain.keys, ints(0, 0, layer.num_kv_heads, size))
    keys = op("Pad", heads, ints(*ONE_MORE_NUMBER), unit)
    flat = op("Reshape", keys, ints(0, 0, layer.num_kv_heads * (size + 1)))
    return Operands(query, *(op("Pad", rows, ints(0, 0, 0, 0, 1, 0), zero) for rows in (flat, plain.values)))


def seen_with_sinks(writer: GraphWriter, mask: ir.Value) -> ir.Value:
    """bool[B, 1, S, K + 1] of a mask of K keys."""
    is_seen = writer.constant("sinks.seen", np.array(True))
    return writer.op("Pad", mask, writer.ints(*ONE_MORE_NUMBER), is_seen)


def _numbers(node: ir.Node) -> tuple[np.dtype, np.ndarray]:
    """The type of queries, and float32[heads] of the sinks."""
    query, sinks = node.inputs[0], node.inputs[SINKS]
    assert query is not None
    assert sinks is not None
    assert sinks.const_value is not None, "as it was checked"
    dtype = (query.dtype or ir.DataType.FLOAT).numpy()
    return dtype, sinks.const_value.numpy().astype(np.float32)

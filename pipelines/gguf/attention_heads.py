"""Queries, keys and values of a decoder's layers: their weights, norms and positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.linear_layers import F32, LinearLayers, Operand
from pipelines.gguf.norms import Norms
from pipelines.gguf.reader import Rows
from pipelines.onnx_format.onnx_writer import OnnxWriter

HEADS_FIRST = [0, 2, 1, 3]
CosSin = tuple[ir.Value, ir.Value]
"""Cosines and sines [1, tokens, rotated / 2] of the positions."""


class Heads(NamedTuple):
    """[1, heads, tokens, size] each; `gate`: rows that gate what is found, where the layer has them."""

    query: ir.Value
    key: ir.Value
    value: ir.Value
    gate: ir.Value | None


def interleaved_rows(heads: int, rows: int, rotated: int) -> Rows:
    """Which row of the file is each row of a query or key weight whose halves rotate together.

    In the file, neighbours among the first `rotated` rows of each head do.
    """
    places = np.arange(rows).reshape(heads, rows // heads)
    turned = places[:, :rotated].reshape(heads, rotated // 2, 2).swapaxes(1, 2).reshape(heads, rotated)
    return np.concatenate([turned, places[:, rotated:]], 1).reshape(-1)


def gates_last(heads: int, rows: int) -> Rows:
    """Rows of queries and then those of their gates, of a weight where the gate of each head follows it."""
    return np.arange(rows).reshape(heads, 2, -1).swapaxes(0, 1).reshape(-1)


class AttentionHeads:
    """Writes what attention reads, layer by layer in order."""

    def __init__(self, facts: DecoderFacts, norms: Norms, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._norms, self._linears = facts, norms, linears
        self._writer, self._op = writer, writer.op
        self._keys: dict[int, tuple[ir.Value, ir.Value]] = {}

    def write(self, layer: int, read: ir.Value, cos_sin: CosSin | None) -> Heads:
        """Keys and values are those of an earlier layer where this one shares them."""
        facts, gate = self._facts, None
        names = self._names(layer)
        rows = dict(zip(names, self._projections(layer, names, read, cos_sin is not None), strict=True))
        if facts.kind.gates_attention:
            width = facts.heads * facts.head_of(layer).size
            rows["q"], gate = self._writer.split(rows["q"], width, width)
        query = self._placed(layer, "q", rows["q"], cos_sin)
        if "k" in rows:
            value = self._value(layer, rows.get("v", rows["k"]))
            self._keys[layer] = self._placed(layer, "k", rows["k"], cos_sin), value
        return Heads(query, *self._keys[facts.keys_of(layer)], gate)

    def _names(self, layer: int) -> str:
        """The letters of what has weights of its own: a layer without values has keys as values."""
        if self._facts.keys_of(layer) != layer:
            return "q"
        at, kind = f"blk.{layer}.", self._facts.kind
        has_values = self._linears.has(f"{at}attn_v.weight") or self._linears.has(f"{at}attn_qkv.weight")
        return "qkv" if has_values or not kind.may_lack_values else "qk"

    def _count(self, layer: int, letter: str) -> int:
        return self._facts.heads if letter == "q" else self._facts.head_of(layer).kv_heads

    def _projections(self, layer: int, names: str, read: ir.Value, is_rotated: bool) -> Iterable[ir.Value]:
        """Rows; their weights are a tensor each, or one of all."""
        facts, at, size = self._facts, f"blk.{layer}.", self._facts.head_of(layer).size
        if self._linears.has(f"{at}attn_qkv.weight"):
            rows = [self._count(layer, letter) * size for letter in names]
            joined = self._linears.linear(read, f"{at}attn_qkv", sum(rows), facts.width)
            return self._writer.split(joined, *rows)
        operands = [self._operand(layer, letter, is_rotated and letter != "v") for letter in names]
        return self._linears.linear_together(read, operands, facts.width)

    def _operand(self, layer: int, letter: str, is_rotated: bool) -> Operand:
        kind, head, heads = self._facts.kind, self._facts.head_of(layer), self._count(layer, letter)
        name, rows = f"blk.{layer}.attn_{letter}", heads * head.size
        if letter == "q" and kind.gates_attention:
            return Operand(name, 2 * rows, gates_last(heads, 2 * rows))
        order = interleaved_rows(heads, rows, head.rotated) if is_rotated and kind.interleaved else None
        return Operand(name, rows, order)

    def _placed(self, layer: int, letter: str, flat: ir.Value, cos_sin: CosSin | None) -> ir.Value:
        """[1, heads, tokens, size], normed where the file has the norm, rotated by `cos_sin`."""
        head, heads, norm = self._facts.head_of(layer), self._count(layer, letter), self._norms.write
        name = f"blk.{layer}.attn_{letter}_norm.weight"
        where = self._facts.kind.head_norms if self._linears.has(name) else None
        if where == "all heads":
            flat = norm(flat, name, heads * head.size)
        rows = self._op("Reshape", flat, self._writer.ints(1, -1, heads, head.size))
        if where == "each head":
            rows = norm(rows, name, head.size)
        split = self._op("Transpose", rows, perm=HEADS_FIRST)
        if cos_sin:
            part = head.rotated if head.rotated < head.size else 0  # 0 is the whole head
            split = self._op(
                "RotaryEmbedding",
                split,
                *cos_sin,
                interleaved=0,
                num_heads=heads,
                rotary_embedding_dim=part,
            )
        if where == "after positions":
            split = norm(split, name, head.size)
        return self._typed(split, heads, head.size)

    def _value(self, layer: int, flat: ir.Value) -> ir.Value:
        head = self._facts.head_of(layer)
        rows = self._op("Reshape", flat, self._writer.ints(1, -1, head.kv_heads, head.size))
        if self._facts.kind.norms_values:
            rows = self._norms.plain(rows, head.size)
        return self._typed(self._op("Transpose", rows, perm=HEADS_FIRST), head.kv_heads, head.size)

    def _typed(self, split: ir.Value, heads: int, size: int) -> ir.Value:
        split.dtype, split.shape = F32, ir.Shape([1, heads, "num_tokens", size])
        return split

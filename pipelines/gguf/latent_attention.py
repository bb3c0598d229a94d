"""Latent attention (MLA): keys and values of all heads of a token are made of one short vector, its latent
one.

The cache keeps that vector and the part of a key that has a position, as one key head for all query heads:
the weights that would make keys of it are applied to the queries, and those of values to what the queries
find, as in DeepSeek-V2 (arXiv 2405.04434, section 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import F32, LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import Rows
from pipelines.gguf.weight_writer import WeightPart
from pipelines.onnx_format.onnx_writer import OnnxWriter

HEADS_FIRST = [0, 2, 1, 3]
Attend = Callable[[ir.Value, ir.Value, ir.Value], ir.Value]
"""What queries [1, heads, tokens, size] find with keys and values [1, 1, tokens, size]."""


@dataclass(frozen=True)
class Latent:
    """The sizes of latent attention.

    `rank`: numbers of the vector of a token; `query_rank`: of that of which its queries are made, 0 where
    they
    are made of the hidden state.  A key of a head has `plain` numbers without a position and, for all heads
    the same, `rotated` ones with it; a value has `value`.  `growth` multiplies the scores: yarn's.
    """

    rank: int
    query_rank: int
    plain: int
    rotated: int
    value: int
    growth: float

    @property
    def head_size(self) -> int:
        """Numbers of a key in the cache."""
        return self.rank + self.rotated

    @property
    def key_size(self) -> int:
        """Numbers of a key of one head, whose root scores are divided by."""
        return self.plain + self.rotated


def read_latent(metadata: Metadata) -> Latent:
    """Raises `GgufError`.  Files of before 2025-04 give the sizes of a head under other names."""
    rotated, rank = metadata.count("rope.dimension_count"), metadata.count("attention.kv_lora_rank")
    metadata.count("attention.head_count_kv", 1)  # 1, or all heads in older files
    key, value = metadata.count("attention.key_length"), metadata.count("attention.value_length")
    key, value = (
        metadata.count("attention.key_length_mla", key),
        metadata.count("attention.value_length_mla", value),
    )
    if rotated % 2 or not rotated < key:
        raise GgufError(f"rotates {rotated} numbers of each key of {key} by its position")
    slope = metadata.own("rope.scaling.yarn_log_multiplier", 0)
    growth = 1 + slope * math.log(max(metadata.own("rope.scaling.factor", 1, 1e-6), 1))
    query_rank = metadata.count("attention.q_lora_rank", 0, 0)
    return Latent(rank, query_rank, key - rotated, rotated, value, growth**2)


def pairs_apart(heads: int, plain: int, rotated: int) -> Rows:
    """Which row of the file is each row of a weight whose last `rotated` rows of each head rotate in halves.

    In the file, neighbours among them rotate together.
    """
    places = np.arange(heads * (plain + rotated)).reshape(heads, -1)
    turned = places[:, plain:].reshape(heads, rotated // 2, 2).swapaxes(1, 2).reshape(heads, rotated)
    return np.concatenate([places[:, :plain], turned], 1).reshape(-1)


class LatentAttention:
    """Writes the attention of a decoder's layers; the tensors of a layer begin with `at`."""

    def __init__(
        self, facts: Latent, heads: int, width: int, epsilon: float, linears: LinearLayers, writer: OnnxWriter
    ) -> None:
        self._facts, self._heads, self._width, self._epsilon = facts, heads, width, epsilon
        self._linears, self._writer, self._op = linears, writer, writer.op

    def write(self, at: str, read: ir.Value, cos_sin: tuple[ir.Value, ir.Value], attend: Attend) -> ir.Value:
        """What the layer adds to `read`, float32 [1, tokens, width]."""
        facts, op = self._facts, self._op
        key = self._key(at, read, cos_sin)
        of_keys, of_values = self._weights(at)
        rows = self._split(self._queries(at, read), self._heads, facts.key_size)
        plain, turned = self._writer.split(rows, facts.plain, facts.rotated)
        absorbed = op("MatMul", plain, of_keys)
        query = op("Concat", absorbed, self._rotated(turned, self._heads, cos_sin), axis=-1)
        query.dtype, query.shape = F32, ir.Shape([1, self._heads, "num_tokens", facts.head_size])
        latents, _ = self._writer.split(attend(query, key, key), facts.rank, facts.rotated)
        values = op("Transpose", op("MatMul", latents, of_values), perm=HEADS_FIRST)
        width = self._heads * facts.value
        flat = op("Reshape", values, self._writer.ints(1, -1, width))
        return self._linears.linear(flat, f"{at}attn_output", self._width, width)

    def _queries(self, at: str, read: ir.Value) -> ir.Value:
        facts, linear = self._facts, self._linears.linear
        rows = self._heads * facts.key_size
        order = pairs_apart(self._heads, facts.plain, facts.rotated)
        if not facts.query_rank:
            return linear(read, f"{at}attn_q", rows, self._width, order)
        short = linear(read, f"{at}attn_q_a", facts.query_rank, self._width)
        normed = self._norm(short, f"{at}attn_q_a_norm.weight", facts.query_rank)
        return linear(normed, f"{at}attn_q_b", rows, facts.query_rank, order)

    def _key(self, at: str, read: ir.Value, cos_sin: tuple[ir.Value, ir.Value]) -> ir.Value:
        """[1, 1, tokens, head_size]: the latent vector of a token, then what has a position.  It is the
        value, too, of which the last numbers are not used: values in a cache are as long as keys.
        """
        facts, op = self._facts, self._op
        order = pairs_apart(1, facts.rank, facts.rotated)
        both = self._linears.linear(read, f"{at}attn_kv_a_mqa", facts.head_size, self._width, order)
        latent, turned = self._writer.split(both, facts.rank, facts.rotated)
        normed = self._norm(latent, f"{at}attn_kv_a_norm.weight", facts.rank)
        placed = self._rotated(self._split(turned, 1, facts.rotated), 1, cos_sin)
        key = op("Concat", self._split(normed, 1, facts.rank), placed, axis=-1)
        key.dtype, key.shape = F32, ir.Shape([1, 1, "num_tokens", facts.head_size])
        return key

    def _weights(self, at: str) -> tuple[ir.Value, ir.Value]:
        """[heads, plain, rank] and [heads, rank, value]: what makes the keys and the values of each head."""
        if self._linears.has(f"{at}attn_kv_b.weight"):
            of_keys, of_values = self._halves(f"{at}attn_kv_b.weight")
            return of_keys, self._turned(of_values)
        of_keys = self._of_heads(f"{at}attn_k_b.weight", self._facts.rank, self._facts.plain)
        of_values = self._of_heads(f"{at}attn_v_b.weight", self._facts.value, self._facts.rank)
        return self._turned(of_keys), self._turned(of_values)

    def _turned(self, weights: ir.Value) -> ir.Value:
        """[heads, rows, width] → [heads, width, rows]."""
        return self._op("Transpose", weights, perm=[0, 2, 1])

    def _of_heads(self, name: str, rows: int, width: int) -> ir.Value:
        part = WeightPart(self._linears.tensor(name, self._heads * rows, width))
        return self._linears.weights.floats(name, part, self._heads)

    def _halves(self, name: str) -> tuple[ir.Value, ir.Value]:
        """[heads, plain, rank] and [heads, value, rank] of a weight that has both of each head."""
        facts = self._facts
        tensor = self._linears.tensor(name, self._heads * (facts.plain + facts.value), facts.rank)
        rows = np.arange(tensor.rows).reshape(self._heads, -1)
        halves = []
        for half, side in ((rows[:, : facts.plain], "keys"), (rows[:, facts.plain :], "values")):
            part = WeightPart(replace(tensor, rows=half.size), half.reshape(-1))
            halves.append(self._linears.weights.floats(f"{name}.{side}", part, self._heads))
        return halves[0], halves[1]

    def _split(self, rows: ir.Value, heads: int, size: int) -> ir.Value:
        """[1, heads, tokens, size]."""
        split = self._op("Reshape", rows, self._writer.ints(1, -1, heads, size))
        return self._op("Transpose", split, perm=HEADS_FIRST)

    def _rotated(self, split: ir.Value, heads: int, cos_sin: tuple[ir.Value, ir.Value]) -> ir.Value:
        return self._op("RotaryEmbedding", split, *cos_sin, interleaved=0, num_heads=heads)

    def _norm(self, rows: ir.Value, name: str, size: int) -> ir.Value:
        scale = self._writer.store(name, self._linears.vector(name, size))
        return self._op("RMSNormalization", rows, scale, axis=-1, epsilon=self._epsilon, stash_type=1)

"""Writes the layers of a vision model: every patch attends to all of its image, or to those of a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers, Operand
from pipelines.gguf.reader import Rows
from pipelines.gguf.tensor_types import Floats
from pipelines.gguf.vision_facts import Activation, VisionFacts
from pipelines.gguf.weights import is_float, read_floats
from pipelines.onnx_format.onnx_writer import OnnxWriter

HEADS_FIRST = [0, 2, 1, 3]
BOUNDS = ("input_min", "input_max", "output_min", "output_max")
"""What is written behind the name of a linear layer, of the least and most of what it reads and gives."""
NORMS = {"layer": "LayerNormalization", "rms": "RMSNormalization"}
EMBEDDING, EMBEDDING_BIAS = "v.patch_embd.weight", "v.patch_embd.bias"


After = Callable[[int, ir.Value], None]
"""Takes the number of a layer and the state behind it."""


class Seen(NamedTuple):
    """What attention reads beside states: `angles`, cosines and sines [1, patches, size / 2] by which queries
    and keys are turned; `mask`, float32 [1, 1, patches, patches] that is added to scores.
    """

    angles: tuple[ir.Value, ir.Value] | None = None
    mask: ir.Value | None = None


class VisionTower:
    """Writes parts of a vision model, whose tensors' names begin with "v."."""

    def __init__(self, facts: VisionFacts, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._linears, self._writer, self._op = facts, linears, writer, writer.op

    def layers(
        self,
        state: ir.Value,
        seen: Callable[[int], Seen],
        after: Callable[[int, ir.Value], None] | None = None,
    ) -> ir.Value:
        """What the layers make of `state`, [images, patches, width]; `after` gets the state after each."""
        state = self.norm_where_given(state, "v.pre_ln")
        for layer in range(self._facts.layers):
            state = self._layer(f"v.blk.{layer}.", state, seen(layer))
            if after:
                after(layer, state)
        return self.norm_where_given(state, "v.post_ln")

    def _layer(self, at: str, state: ir.Value, seen: Seen) -> ir.Value:
        read = self.norm(state, f"{at}ln1")
        attended = self.norm_where_given(self._attention(at, read, seen), f"{at}attn_post_norm")
        state = self._op("Add", state, self._scaled(f"{at}ls1.weight", attended))
        fed = self.network(f"{at}ffn_", self.norm(state, f"{at}ln2"))
        fed = self.norm_where_given(fed, f"{at}ffn_post_norm")
        return self._op("Add", state, self._scaled(f"{at}ls2.weight", fed))

    def _scaled(self, name: str, values: ir.Value) -> ir.Value:
        if not self._linears.has(name):
            return values
        scale = self._linears.vector(name, self._facts.width)
        return self._op("Mul", values, self._writer.store(name, scale))

    def _attention(self, at: str, read: ir.Value, seen: Seen) -> ir.Value:
        facts, op, ints = self._facts, self._op, self._writer.ints
        size = facts.width // facts.heads
        heads = [
            op(
                "Transpose",
                self._normed_heads(f"{at}attn_{letter}", op("Reshape", rows, ints(0, -1, facts.heads, size))),
                perm=HEADS_FIRST,
            )
            for letter, rows in zip("qkv", self._projections(at, read), strict=True)
        ]
        if seen.angles:
            for number in range(2):
                heads[number] = op(
                    "RotaryEmbedding",
                    heads[number],
                    *seen.angles,
                    interleaved=int(not facts.kind.pairs_apart),
                    num_heads=facts.heads,
                )
        mask = () if seen.mask is None else (seen.mask,)
        attended = op("Attention", *heads, *mask, scale=float(facts.kind.scale or size**-0.5))
        rows = op("Reshape", op("Transpose", attended, perm=HEADS_FIRST), ints(0, -1, facts.width))
        return self.linear(rows, f"{at}attn_out", facts.width, facts.width)

    def _normed_heads(self, name: str, heads: ir.Value) -> ir.Value:
        """The heads of one projection, [images, patches, heads, size], with the norm that theirs have."""
        size = self._facts.width // self._facts.heads
        if name.endswith("v"):
            return self.plain_norm(heads, size) if self._facts.kind.norms_values else heads
        if not self._linears.has(f"{name}_norm.weight"):
            return heads
        weight = self._linears.vector(f"{name}_norm.weight", size)
        stored = self._writer.store(f"{name}_norm.weight", weight[self._order(1)])
        return self._op("RMSNormalization", heads, stored, axis=-1, epsilon=self._facts.epsilon)

    def _order(self, heads: int) -> Rows:
        """The numbers of query and key heads so that halves of a head rotate together, first by rows: where
        the file has halves for each axis, the halves of these lie in turns.
        """
        size = self._facts.width // self._facts.heads
        places = np.arange(heads * size)
        if not self._facts.kind.axes_apart:
            return places
        by_axis = places.reshape(heads, 2, 2, size // 4)[:, ::-1]
        return by_axis.transpose(0, 2, 1, 3).reshape(-1)

    def _projections(self, at: str, read: ir.Value) -> Iterable[ir.Value]:
        width = self._facts.width
        if self._linears.has(f"{at}attn_qkv.weight"):
            joined = self._linears.linear(read, f"{at}attn_qkv", 3 * width, width)
            return self._writer.split(joined, width, width, width)
        order = self._order(self._facts.heads) if self._facts.kind.axes_apart else None
        operands = [
            Operand(f"{at}attn_{letter}", width, None if letter == "v" else order) for letter in "qkv"
        ]
        if any(self._linears.has(f"{operand.name}.{BOUNDS[0]}") for operand in operands):
            return [self.linear(read, operand.name, width, width, operand.order) for operand in operands]
        return self._linears.linear_together(read, operands, width)

    def linear(
        self, rows: ir.Value, name: str, outer: int, inner: int, order: Rows | None = None
    ) -> ir.Value:
        """A linear layer; what it reads and gives is cut off at its bounds, where the file has them."""
        least, most, after_least, after_most = (self._bound(f"{name}.{end}") for end in BOUNDS)
        if least is not None or most is not None:
            rows = self._op("Clip", rows, least, most)
        product = self._linears.linear(rows, name, outer, inner, order)
        if after_least is not None or after_most is not None:
            product = self._op("Clip", product, after_least, after_most)
        return product

    def _bound(self, name: str) -> ir.Value | None:
        if not self._linears.has(name):
            return None
        bound = float(self._linears.vector(name, 1)[0])
        return self._writer.number(bound) if np.isfinite(bound) else None

    def network(self, at: str, read: ir.Value) -> ir.Value:
        """The network of a layer.  Old files call the first linear layer "down"."""
        facts, first, last = self._facts, "up", "down"
        if self._linears.tensor(f"{at}up.weight", rows=None, width=None).width != facts.width:
            first, last = last, first
        inner = self.linear(read, f"{at}{first}", facts.inner, facts.width)
        if self._linears.has(f"{at}gate.weight"):
            gate = self.linear(read, f"{at}gate", facts.inner, facts.width)
            inner = self._op("Mul", self.activated(gate, facts.activation), inner)
        else:
            inner = self.activated(inner, facts.activation)
        return self.linear(inner, f"{at}{last}", facts.width, facts.inner)

    def projected(self, rows: ir.Value, first: str, second: str, width: int) -> ir.Value:
        """Embeddings, [..., size], of rows of `width`: two linear layers with an activation between them."""
        inner = self._linears.tensor(f"{first}.weight", rows=None, width=width).rows
        middle = self.activated(self._linears.linear(rows, first, inner, width), "gelu")
        return self._linears.linear(middle, second, self._facts.size, inner)

    def activated(self, values: ir.Value, kind: Activation) -> ir.Value:
        op = self._op
        if kind in ("gelu", "gelu by tanh"):
            return op("Gelu", values, approximate="tanh" if "tanh" in kind else "none")
        inside = values if kind == "silu" else op("Mul", values, self._writer.number(1.702))
        return op("Mul", values, op("Sigmoid", inside))

    def norm_where_given(self, state: ir.Value, name: str) -> ir.Value:
        return self.norm(state, name) if self._linears.has(f"{name}.weight") else state

    def norm(self, state: ir.Value, name: str, width: int = 0) -> ir.Value:
        """A norm of the layers' kind, of the model's width where no other is given."""
        weight = self._linears.vector(f"{name}.weight", width or self._facts.width)
        more = []
        if self._linears.has(f"{name}.bias"):
            more.append(self.vector(f"{name}.bias", len(weight)))
        return self._op(
            NORMS[self._facts.kind.norm],
            state,
            self._writer.store(f"{name}.weight", weight),
            *more,
            axis=-1,
            epsilon=self._facts.epsilon,
        )

    def plain_norm(self, state: ir.Value, width: int) -> ir.Value:
        """A norm by the root of the mean square, without a weight."""
        ones = self._writer.store(f"ones.{width}", np.ones(width, np.float32))
        return self._op("RMSNormalization", state, ones, axis=-1, epsilon=self._facts.epsilon)

    def layer_norm(self, state: ir.Value, name: str, width: int, epsilon: float) -> ir.Value:
        """A norm with a bias that is not of the layers' kind."""
        parts = [self.vector(f"{name}.{part}", width) for part in ("weight", "bias")]
        return self._op("LayerNormalization", state, *parts, axis=-1, epsilon=epsilon)

    def vector(self, name: str, size: int) -> ir.Value:
        return self._writer.store(name, self._linears.vector(name, size))

    def floats(self, name: str, *shape: int) -> Floats:
        """float32 of this shape of a tensor that is no linear layer.  Raises `GgufError`."""
        tensor = self._linears.tensor(name, rows=None, width=None)
        if not is_float(tensor) or tensor.rows * tensor.width != np.prod(shape):
            raise GgufError(f"{name} is {tensor.rows} × {tensor.width} of {tensor.type.name}, not {shape}")
        return read_floats(tensor).reshape(shape)

    def biased(self, state: ir.Value, name: str) -> ir.Value:
        """The state with a bias, where the file has it."""
        if not self._linears.has(name):
            return state
        return self._op("Add", state, self.vector(name, self._facts.width))

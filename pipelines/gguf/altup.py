"""Decoders whose state is several streams, of which one goes through the layers, as in Gemma 3n.

A layer predicts all streams from all, computes the active one, and corrects the others by how far that is
from its prediction ("Alternating Updates", arXiv 2301.13310).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.norms import Norms
from pipelines.onnx_format.onnx_writer import OnnxWriter

TO_STREAMS, TO_ONE = "altup_proj.weight", "altup_unembd_proj.weight"
Streams = Sequence[ir.Value]
"""[1, tokens, width] each."""
LEAST = 1e-5
"""Mean squares are not divided by less."""


class AltUp:
    """Writes what happens to streams around the layers; the tensors of a layer begin with `at`."""

    def __init__(self, facts: DecoderFacts, norms: Norms, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._norms, self._linears = facts, norms, linears
        self._writer, self._op = writer, writer.op
        assert facts.streams is not None, "a decoder with streams"
        self._count, self._active = facts.streams

    def streams(self, state: ir.Value) -> Streams:
        """The embeddings, and what is made of them for the other streams, as large as they are."""
        others = self._projected(TO_STREAMS, [state] * (self._count - 1))
        return [state, *(self._as_large_as(state, other) for other in others)]

    def one(self, streams: Streams) -> ir.Value:
        """The mean of the streams, of which the others are brought back."""
        first, *others = streams
        back = [self._as_large_as(first, other) for other in self._projected(TO_ONE, others)]
        return self._op("Mul", self._op("Sum", first, *back), self._writer.number(1 / self._count))

    def predicted(self, at: str, streams: Streams) -> Streams:
        """Each stream plus all streams, weighted by the active one."""
        weights = self._weights(at, streams[self._active], "altup_predict_coef", self._count**2)
        rows = [weights[number : number + self._count] for number in range(0, self._count**2, self._count)]
        return [
            self._op("Add", stream, self._mixed(streams, row))
            for stream, row in zip(streams, rows, strict=True)
        ]

    def corrected(self, at: str, predicted: Streams, computed: ir.Value) -> Streams:
        op = self._op
        news = op("Sub", computed, predicted[self._active])
        weights = self._weights(at, computed, "altup_correct_coef", self._count)
        shares = [op("Mul", news, op("Add", weight, self._writer.number(1.0))) for weight in weights]
        return [op("Add", stream, share) for stream, share in zip(predicted, shares, strict=True)]

    def with_embeddings(self, streams: Streams, added: ir.Value) -> Streams:
        """What the layer's own embeddings add goes to all streams but the first."""
        first, *others = streams
        return [first, *(self._op("Add", stream, added) for stream in others)]

    def scaled(self, at: str, streams: Streams) -> ir.Value:
        """The active stream, as the layer's own embeddings read it."""
        name = f"{at}altup_correct_scale.weight"
        scale = self._writer.store(name, self._linears.vector(name, self._facts.width))
        return self._op("Mul", streams[self._active], scale)

    def active(self, streams: Streams) -> ir.Value:
        return streams[self._active]

    def _mixed(self, streams: Streams, weights: Streams) -> ir.Value:
        products = [self._op("Mul", stream, weight) for stream, weight in zip(streams, weights, strict=True)]
        return self._op("Sum", *products)

    def _weights(self, at: str, state: ir.Value, name: str, count: int) -> Streams:
        """[1, tokens, 1] each, between -1 and 1 before their last layer."""
        width, op = self._facts.width, self._op
        normed = self._norms.write(state, f"{at}altup_router_norm.weight", width)
        routed = op("Mul", normed, self._writer.number(1 / width))
        kinds = op("Tanh", self._linears.linear(routed, f"{at}altup_router", self._count, width))
        weights = self._linears.linear(kinds, f"{at}{name}", count, self._count)
        return self._writer.split(weights, *[1] * count)

    def _projected(self, name: str, states: Streams) -> Streams:
        """Each state through its own weight, of those that the tensor holds."""
        width, count = self._facts.width, self._count - 1
        tensor = self._linears.tensor(name, count * width, width)
        part, orders = replace(tensor, rows=width), np.arange(tensor.rows).reshape(count, width)
        return [
            self._linears.multiply(state, part, f"{name}.{number}", order)
            for number, (state, order) in enumerate(zip(states, orders, strict=True))
        ]

    def _as_large_as(self, state: ir.Value, other: ir.Value) -> ir.Value:
        """`other` with the root mean square of `state`."""
        op = self._op
        size = op("Max", self._mean_square(other), self._writer.number(LEAST))
        ratio = op("Div", self._mean_square(state), size)
        return op("Mul", other, op("Sqrt", ratio))

    def _mean_square(self, state: ir.Value) -> ir.Value:
        return self._op("ReduceMean", self._op("Mul", state, state), self._writer.ints(-1), keepdims=1)

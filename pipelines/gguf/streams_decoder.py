"""Writes a decoder whose layers read and write several streams, as Gemma 3n."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from pipelines.gguf.altup import AltUp
from pipelines.gguf.attention_heads import CosSin
from pipelines.gguf.decoder import AFTER_ATTENTION, AFTER_FEED, Decoder


class StreamsDecoder(Decoder):
    """A decoder whose layers compute one of the streams."""

    def _layers(self, ids: ir.Value, state: ir.Value, angles: Sequence[CosSin]) -> ir.Value:
        altup = AltUp(self._facts, self._norms, self._linears, self._writer)
        own, streams = self._layer_embeddings.read(ids, state), altup.streams(state)
        for layer, cos_sin in enumerate(angles):
            at = f"blk.{layer}."
            predicted = altup.predicted(at, streams)
            streams = altup.corrected(at, predicted, self._computed(layer, altup.active(predicted), cos_sin))
            added = self._layer_embeddings.added(at, altup.scaled(at, streams), own[layer])
            streams = altup.with_embeddings(streams, added)
        return altup.one(streams)

    def _computed(self, layer: int, state: ir.Value, cos_sin: CosSin) -> ir.Value:
        """What a layer makes of the active stream: attention beside a low-rank layer (LAuReL), then a
        network.
        """
        at, width, op, norm = f"blk.{layer}.", self._facts.width, self._op, self._norms.write
        read = norm(state, f"{at}attn_norm.weight", width)
        attended = norm(self._attention(layer, read, cos_sin), f"{at}{AFTER_ATTENTION}.weight", width)
        both = op("Sum", state, attended, self._low_rank(at, read))
        middle = op("Mul", both, self._writer.number(math.sqrt(0.5)))
        fed = self._feed_forward.write(at, norm(middle, f"{at}ffn_norm.weight", width))
        return op("Add", middle, norm(fed, f"{at}{AFTER_FEED}.weight", width))

    def _low_rank(self, at: str, read: ir.Value) -> ir.Value:
        width = self._facts.width
        rank = self._linears.tensor(f"{at}laurel_l.weight", rows=None, width=width).rows
        short = self._linears.linear(read, f"{at}laurel_l", rank, width)
        wide = self._linears.linear(short, f"{at}laurel_r", width, rank)
        return self._op("Add", read, self._norms.write(wide, f"{at}laurel_post_norm.weight", width))

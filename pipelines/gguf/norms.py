"""Norms of a decoder, all of one kind."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.tensor_types import Floats
from pipelines.onnx_format.onnx_writer import OnnxWriter

KINDS = {"rms": "RMSNormalization", "layer": "LayerNormalization"}


class Norms:
    """Writes the norms of the last axis."""

    def __init__(self, facts: DecoderFacts, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._linears, self._writer = facts, linears, writer

    def write(self, state: ir.Value, name: str, size: int) -> ir.Value:
        """The norm whose weight is the tensor `name`."""
        return self._with(state, name, self._linears.vector(name, size))

    def plain(self, state: ir.Value, size: int) -> ir.Value:
        """A norm without weight."""
        return self._with(state, f"ones.{size}", np.ones(size, np.float32))

    def where_given(self, state: ir.Value, name: str) -> ir.Value:
        """The norm of a whole state, which stays as it is where the file has no tensor `name`."""
        return self.write(state, name, self._facts.width) if self._linears.has(name) else state

    def _with(self, state: ir.Value, name: str, values: Floats) -> ir.Value:
        scale, kind = self._writer.store(name, values), KINDS[self._facts.kind.norm]
        shift, bias = name.removesuffix("weight") + "bias", []
        if kind == KINDS["layer"] and self._linears.has(shift):
            bias = [self._writer.store(shift, self._linears.vector(shift, len(values)))]
        return self._writer.op(kind, state, scale, *bias, axis=-1, epsilon=self._facts.epsilon, stash_type=1)

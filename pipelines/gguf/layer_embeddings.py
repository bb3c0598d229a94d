"""Embeddings of tokens that each layer has of its own, as in Gemma 3n and 4."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.norms import Norms
from pipelines.onnx_format.onnx_writer import OnnxWriter

TABLE, PROJECTION = "per_layer_token_embd.weight", "per_layer_model_proj"
NORM = "per_layer_proj_norm.weight"


class LayerEmbeddings:
    """Writes what layers read of their own embeddings, `facts.layer_size` numbers for each token."""

    def __init__(self, facts: DecoderFacts, norms: Norms, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._norms, self._linears = facts, norms, linears
        self._writer, self._op = writer, writer.op

    def read(self, ids: ir.Value, state: ir.Value) -> Sequence[ir.Value]:
        """[1, tokens, layer_size] of each layer: half of the table, half of the embeddings of all."""
        facts, op, number = self._facts, self._op, self._writer.number
        size, width = facts.layer_size, facts.layers * facts.layer_size
        table = self._linears.tensor(TABLE, rows=None, width=width)
        looked_up = op("Mul", self._linears.look_up(ids, table), number(math.sqrt(size)))
        projected = self._linears.linear(state, PROJECTION, width, facts.width)
        scaled = op("Mul", projected, number(facts.width**-0.5))
        split = op("Reshape", scaled, self._writer.ints(1, -1, facts.layers, size))
        flat = op("Reshape", self._norms.write(split, NORM, size), self._writer.ints(1, -1, width))
        both = op("Mul", op("Add", flat, looked_up), number(math.sqrt(0.5)))
        return self._writer.split(both, *[size] * facts.layers)

    def added(self, at: str, state: ir.Value, own: ir.Value) -> ir.Value:
        """What a layer adds to the states after it: its own embeddings, which the state gates."""
        facts, linear = self._facts, self._linears.linear
        gate = self._op(
            "Gelu", linear(state, f"{at}inp_gate", facts.layer_size, facts.width), approximate="tanh"
        )
        wide = linear(self._op("Mul", gate, own), f"{at}proj", facts.width, facts.layer_size)
        return self._norms.write(wide, f"{at}post_norm.weight", facts.width)

"""The feed-forward part of a layer: one network, or a mixture of experts."""

from __future__ import annotations

import onnx_ir as ir

from pipelines.gguf.architectures import DecoderFacts
from pipelines.gguf.linear_layers import LinearLayers, Operand
from pipelines.gguf.weights import side_by_side
from pipelines.onnx_format.onnx_writer import OnnxWriter

ROUTER, SHARED_GATE = "ffn_gate_inp", "ffn_gate_inp_shexp"


class FeedForward:
    """Writes the networks of a decoder's layers; the tensors of a layer begin with `at`."""

    def __init__(self, facts: DecoderFacts, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._linears, self._writer, self._op = facts, linears, writer, writer.op

    def write(self, at: str, read: ir.Value) -> ir.Value:
        if self._facts.experts and self._linears.has(f"{at}{ROUTER}.weight"):
            return self._mixture(at, read)
        return self._network(at, "", read)

    def _network(self, at: str, kind: str, read: ir.Value) -> ir.Value:
        """The network whose tensors' names end in `kind`."""
        middle, inner = self._middle(at, kind, read)
        return self._linears.linear(middle, f"{at}ffn_down{kind}", self._facts.width, inner)

    def _middle(self, at: str, kind: str, read: ir.Value) -> tuple[ir.Value, int]:
        """The activated gate times the rest, and their size; without a gate, one tensor holds both."""
        gate, up, width = f"{at}ffn_gate{kind}", f"{at}ffn_up{kind}", self._facts.width
        rows = self._linears.tensor(f"{up}.weight", rows=None, width=width).rows
        if self._linears.has(f"{gate}.weight"):
            operands = [Operand(gate, rows), Operand(up, rows)]
            gated, linear = self._linears.linear_together(read, operands, width)
        else:
            rows //= 2
            both = self._linears.linear(read, up, 2 * rows, width)
            gated, linear = self._writer.split(both, rows, rows)
        return self._op("Mul", self._activated(gated), linear), rows

    def _activated(self, gate: ir.Value) -> ir.Value:
        if self._facts.kind.activation == "gelu":
            return self._op("Gelu", gate, approximate="tanh")
        return self._op("Mul", gate, self._op("Sigmoid", gate))

    def _mixture(self, at: str, read: ir.Value) -> ir.Value:
        """All experts as one wide network, whose middle is multiplied by the experts' weights: it computes
        every expert, and those that were not chosen count 0.
        """
        count, ints = self._facts.experts, self._writer.ints
        middle, inner = self._middle(at, "_exps", read)
        split = self._op("Reshape", middle, ints(1, -1, count, inner // count))
        weighted = self._op("Mul", split, self._op("Unsqueeze", self._weights(at, read), ints(3)))
        down = f"{at}ffn_down_exps"
        tensor = self._linears.tensor(f"{down}.weight", count * self._facts.width, inner // count)
        flat = self._op("Reshape", weighted, ints(1, -1, inner))
        mixed = self._linears.multiply(flat, side_by_side(tensor, count), down)
        return self._op("Add", mixed, self._shared(at, read)) if self._has_shared(at) else mixed

    def _weights(self, at: str, read: ir.Value) -> ir.Value:
        """float [1, tokens, experts] of the experts, 0 for all but those that a token uses."""
        facts, ints = self._facts, self._writer.ints
        scores = self._linears.linear(read, f"{at}{ROUTER}", facts.experts, facts.width)
        shares = self._op("Softmax", scores, axis=-1)
        best, places = self._writer.ops("TopK", shares, ints(facts.experts_used), count=2, axis=-1)
        if facts.kind.experts_sum_to_one:
            best = self._op("Div", best, self._op("ReduceSum", best, ints(-1), keepdims=1))
        nothing = self._op("Mul", shares, self._writer.number(0.0))
        return self._op("ScatterElements", nothing, places, best, axis=-1)

    def _has_shared(self, at: str) -> bool:
        return self._linears.has(f"{at}ffn_up_shexp.weight")

    def _shared(self, at: str, read: ir.Value) -> ir.Value:
        """The network that every token uses, with a gate of its own."""
        gate = self._linears.linear(read, f"{at}{SHARED_GATE}", 1, self._facts.width)
        return self._op("Mul", self._op("Sigmoid", gate), self._network(at, "_shexp", read))

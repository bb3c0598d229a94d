"""The feed-forward part of a layer: one network, or a mixture of experts."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.experts import RoutedExperts
from pipelines.gguf.linear_layers import LinearLayers, Operand
from pipelines.gguf.norms import Norms
from pipelines.gguf.routers import ROUTER, Router
from pipelines.onnx_format.onnx_writer import OnnxWriter

NORM_OF_EXPERTS = "pre_ffw_norm_2.weight"
SHARED, SHARED_GATE = "_shexp", "ffn_gate_inp_shexp"
LATENT_DOWN, LATENT_UP = "ffn_latent_down", "ffn_latent_up"
"""What leads to the numbers that experts read and give, and back."""
UNGATED = ("xielu", "relu2")


class FeedForward:
    """Writes the networks of a decoder's layers; the tensors of a layer begin with `at`."""

    def __init__(self, facts: DecoderFacts, norms: Norms, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._norms, self._linears = facts, norms, linears
        self._writer, self._op = writer, writer.op
        self._latent = facts.mixture.latent if facts.mixture else 0
        if mixture := facts.mixture:
            self._router = Router(mixture, facts.width, linears, writer)
            width = mixture.latent or facts.width
            self._experts = RoutedExperts(mixture.experts, width, linears, writer)

    def write(self, at: str, read: ir.Value) -> ir.Value:
        if self._facts.mixture and self._linears.has(f"{at}{ROUTER}.weight"):
            return self._mixture(at, read)
        return self._network(at, "", read)

    def has_experts_beside(self, at: str) -> bool:
        """Whether a layer has experts beside a network, each with norms of its own, as in Gemma 4."""
        return self._linears.has(f"{at}{NORM_OF_EXPERTS}")

    def beside(self, at: str, state: ir.Value) -> ir.Value:
        """The network and the experts of a state, whose router reads it in a norm without weight."""
        facts, norms, op = self._facts, self._norms, self._op
        network = self._network(at, "", norms.write(state, f"{at}ffn_norm.weight", facts.width))
        name = f"{at}{ROUTER}.scale"
        scale = self._linears.vector(name, facts.width) * np.float32(facts.width**-0.5)
        routed = op("Mul", norms.plain(state, facts.width), self._writer.store(name, scale))
        read = norms.write(state, f"{at}{NORM_OF_EXPERTS}", facts.width)
        mixed = self._experts.write(at, read, self._router.choose(at, routed), facts.kind.activation)
        return op(
            "Add",
            norms.where_given(network, f"{at}post_ffw_norm_1.weight"),
            norms.where_given(mixed, f"{at}post_ffw_norm_2.weight"),
        )

    def _mixture(self, at: str, read: ir.Value) -> ir.Value:
        """The experts that a token uses, and the network that every token uses where there is one."""
        router, latent = self._router.choose(at, read), self._latent
        own = self._linears.linear(read, f"{at}{LATENT_DOWN}", latent, self._facts.width) if latent else read
        kind = self._facts.kind.activation
        mixed = self._experts.write(at, own, router, kind, has_gate=kind not in UNGATED)
        if latent:
            mixed = self._linears.linear(mixed, f"{at}{LATENT_UP}", self._facts.width, latent)
        if not self._linears.has(f"{at}ffn_up{SHARED}.weight"):
            return mixed
        shared = self._network(at, SHARED, read)
        if self._linears.has(f"{at}{SHARED_GATE}.weight"):
            gate = self._linears.linear(read, f"{at}{SHARED_GATE}", 1, self._facts.width)
            shared = self._op("Mul", self._op("Sigmoid", gate), shared)
        return self._op("Add", mixed, shared)

    def _network(self, at: str, kind: str, read: ir.Value) -> ir.Value:
        """The network whose tensors' names end in `kind`."""
        is_gated = self._facts.kind.activation not in UNGATED
        middle, inner = self._middle(at, kind, read) if is_gated else self._bent(at, kind, read)
        return self._linears.linear(middle, f"{at}ffn_down{kind}", self._facts.width, inner)

    def _bent(self, at: str, kind: str, read: ir.Value) -> tuple[ir.Value, int]:
        """The activation of a network without a gate, and its size; `at` is "blk.N."."""
        up, width = f"{at}ffn_up{kind}", self._facts.width
        rows = self._linears.tensor(f"{up}.weight", rows=None, width=width).rows
        linear = self._linears.linear(read, up, rows, width)
        if self._facts.xielu:
            return self._facts.xielu[int(at.split(".")[1])].write(self._writer, linear), rows
        positive = self._op("Relu", linear)
        return self._op("Mul", positive, positive), rows

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
        gated = self._sparse(at, gated) if any(self._facts.sparsity) else gated
        return self._op("Mul", self._activated(gated), linear), rows

    def _sparse(self, at: str, gate: ir.Value) -> ir.Value:
        """How far each number lies above the mean of all plus some deviations; else 0."""
        op, deviations = self._op, self._facts.sparsity[int(at.split(".")[1])]
        if not deviations:
            return gate
        apart = op("Sub", gate, op("ReduceMean", gate, self._writer.ints(-1), keepdims=1))
        square = op("ReduceMean", op("Mul", apart, apart), self._writer.ints(-1), keepdims=1)
        least = op("Mul", op("Sqrt", square), self._writer.number(deviations))
        return op("Relu", op("Sub", apart, least))

    def _activated(self, gate: ir.Value) -> ir.Value:
        if self._facts.kind.activation == "gelu by erf":
            return self._op("Gelu", gate)
        if self._facts.kind.activation == "gelu":
            return self._op("Gelu", gate, approximate="tanh")
        return self._op("Mul", gate, self._op("Sigmoid", gate))

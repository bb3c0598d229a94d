"""The routed experts of a layer as one module, which is Braid's abstract node where the model is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn.functional import gelu, linear, relu, silu

from pipelines.onnx_format.decoder_format import DOMAIN, VERSION
from pipelines.onnx_format.experts_format import EXPERTS

Gated = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": lambda gate: gelu(gate, approximate="tanh"),
    "relu2": lambda gate: relu(gate).square(),
}
CLAMPED = "clamped"
TRIED, WIDE, SAME = 4096, 8.0, 1e-4
"""Random gates, their deviation, and the difference that is allowed where an activation is recognised."""


@dataclass(frozen=True)
class Activation:
    """The activation of a gate times the rest, by the node's name; `alpha` and `limit` of the clamped one."""

    name: str
    alpha: float = 0.0
    limit: float = 0.0

    def __call__(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        if self.name != CLAMPED:
            return ACTIVATIONS[self.name](gate) * up
        gate = gate.clamp(max=self.limit)
        return gate * torch.sigmoid(self.alpha * gate) * (up.clamp(-self.limit, self.limit) + 1)


def recognised(gated: Gated, alpha: float, limit: float) -> Activation | None:
    """The activation that `gated` computes from gates and the rest; None where it is another one."""
    generator = torch.Generator().manual_seed(1)
    gate, up = (torch.randn(TRIED, generator=generator) * WIDE for _ in range(2))
    computed = gated(gate, up)
    for activation in (*map(Activation, ACTIVATIONS), Activation(CLAMPED, alpha, limit)):
        if torch.allclose(computed, activation(gate, up), rtol=SAME, atol=SAME):
            return activation
    return None


class Weight(NamedTuple):
    """The weights of all experts, [experts, rows, columns], and their biases [experts, rows]."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None


class Network(NamedTuple):
    """The experts of a layer; `layer` is its number in the decoder."""

    up: Weight
    down: Weight
    gate: Weight | None
    activation: Activation
    layer: int


class RoutedExperts(torch.nn.Module):
    """Computes, of each token, the experts that its router chose."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.activation, self.layer = network.activation, network.layer
        for side in ("up", "down", "gate"):
            weight, bias = getattr(network, side) or (None, None)
            self.register_parameter(side, _parameter(weight))
            self.register_parameter(f"{side}_bias", _parameter(bias))

    @property
    def num_experts(self) -> int:
        return len(self.up)

    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        """hidden_states [tokens, width], experts and their weights [tokens, used] → [tokens, width]."""
        weights = top_k_weights.to(hidden_states.dtype)
        if torch.compiler.is_exporting():
            return self._node(hidden_states[None], top_k_index[None], weights[None])[0]
        mixed = torch.zeros_like(hidden_states)
        for expert, tokens, places, middle in self.middles(hidden_states, top_k_index):
            rows = linear(middle, self.down[expert], _of(self.down_bias, expert))
            mixed.index_add_(0, tokens, rows * weights[tokens, places, None])
        return mixed

    def middles(
        self, hidden_states: torch.Tensor, chosen: torch.Tensor
    ) -> Iterator[tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Each expert that was chosen: its number, its tokens, their places among the chosen, and what its
        down weight is multiplied with.
        """
        for expert in chosen.unique().tolist():
            tokens, places = torch.where(chosen == expert)
            rows = hidden_states[tokens]
            up = linear(rows, self.up[expert], _of(self.up_bias, expert))
            if self.gate is None:
                yield expert, tokens, places, self.activation(up, torch.ones_like(up))
            else:
                gate = linear(rows, self.gate[expert], _of(self.gate_bias, expert))
                yield expert, tokens, places, self.activation(gate, up)

    def _node(self, *rows: torch.Tensor) -> torch.Tensor:
        sides = [side for side in ("up", "down", "gate") if getattr(self, side) is not None]
        inputs = [value for side in sides for value in (getattr(self, side), None, None, self._bias(side))]
        return torch.onnx.ops.symbolic(
            f"{DOMAIN}::{EXPERTS}",
            (*rows, *inputs),
            self._attributes(),
            dtype=rows[0].dtype,
            shape=rows[0].shape,
            version=VERSION,
        )

    def _bias(self, side: str) -> torch.Tensor | None:
        bias = getattr(self, f"{side}_bias")
        return None if bias is None else bias.float()

    def _attributes(self) -> dict[str, Any]:
        sizes = {f"{side}_{size}": 0 for side in ("up", "down", "gate") for size in ("bits", "block")}
        clamped = {"alpha": self.activation.alpha, "limit": self.activation.limit}
        return {
            "layer": self.layer,
            "activation": self.activation.name,
            "table": "linear",
            **sizes,
            **(clamped if self.activation.name == CLAMPED else {}),
        }


def _parameter(tensor: torch.Tensor | None) -> torch.nn.Parameter | None:
    return None if tensor is None else torch.nn.Parameter(tensor.detach(), requires_grad=False)


def _of(biases: torch.Tensor | None, expert: int) -> torch.Tensor | None:
    return None if biases is None else biases[expert]

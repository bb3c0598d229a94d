"""Replaces mixtures of experts, which route by data, by wide layers that compute every expert, weighted.

A mixture's output Σ wₑ·downₑ(act(gateₑ x)·upₑ x) is one wide network whose middle is scaled by the weights of
its experts, zero where an expert was not chosen. It is exact, and computes every expert for every token.
"""

from __future__ import annotations

import inspect
from functools import partial
from types import MethodType
from typing import Any

import torch

from tools.export.base.folder import ExportError

PROJECTIONS = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))
"""Names of an expert's three weights in the model families."""
SAME = 0.05
"""Allowed relative difference of a mixture and its wide layer, above what half precision rounds."""


class WideExperts(torch.nn.Module):
    """All experts of a layer: gate and up [experts·middle, width], down [width, experts·middle]."""

    def __init__(self, experts: list[Any]) -> None:
        super().__init__()
        names = next(names for names in PROJECTIONS if hasattr(experts[0], names[0]))
        gate, up, down = ([getattr(expert, name).weight for expert in experts] for name in names)
        self.gate, self.up, self.down = _linear(gate, 0), _linear(up, 0), _linear(down, 1)
        self.act = experts[0].act_fn
        self.middle = gate[0].shape[0]

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """x [tokens, width], weights [tokens, experts] → [tokens, width]."""
        middle = self.act(self.gate(x)) * self.up(x)
        spread = middle.view(-1, weights.shape[1], self.middle) * weights[:, :, None]
        return self.down(spread.view(-1, middle.shape[1]))


class StackedExperts(torch.nn.Module):
    """All experts of a layer that transformers 5 stores in two tensors: gate and up, down.

    gate_up [experts·2·middle, width] is a view of transformers' own; down [width, experts·middle].
    """

    def __init__(self, experts: Any) -> None:
        super().__init__()
        self.num_experts, both, width = experts.gate_up_proj.shape
        self.gate_up = _linear([experts.gate_up_proj.reshape(self.num_experts * both, width)], 0)
        self.down = _linear([experts.down_proj.permute(1, 0, 2).reshape(width, -1)], 0)
        self.apply_gate = getattr(experts, "_apply_gate", None) or partial(_gated, experts.act_fn)

    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        """hidden_states [tokens, width], chosen experts and their weights [tokens, k] → [tokens, width]."""
        both = self.gate_up(hidden_states).view(
            -1, self.num_experts, self.gate_up.out_features // self.num_experts
        )
        weights = _spread(top_k_index, top_k_weights.to(both.dtype), self.num_experts)
        middle = self.apply_gate(both) * weights[:, :, None]
        return self.down(middle.view(-1, self.down.in_features))


def widen_experts(model: torch.nn.Module) -> None:
    """Replace the mixtures of `model` in the supported formats; others stay unchanged."""
    with torch.no_grad():
        for parent in list(model.modules()):
            for name, experts in list(parent.named_children()):
                if _is_stacked(experts):
                    setattr(parent, name, StackedExperts(experts))
        for mixture in [module for module in model.modules() if _understood(module)]:
            _widen(mixture)


def _is_stacked(module: Any) -> bool:
    """Whether the module is of transformers 5, without biases and with the experts first in its tensors."""
    gate_up, down = (getattr(module, name, None) for name in ("gate_up_proj", "down_proj"))
    if not isinstance(gate_up, torch.nn.Parameter) or not isinstance(down, torch.nn.Parameter):
        return False
    takes = [*inspect.signature(module.forward).parameters][:3]
    return (
        takes in (["hidden_states", "top_k_index", "top_k_weights"], ["args", "kwargs"])
        and gate_up.ndim == 3
        and tuple(down.shape) == (gate_up.shape[0], gate_up.shape[2], gate_up.shape[1] // 2)
        and getattr(module, "gate_up_proj_bias", None) is None
        and not getattr(module, "is_transposed", False)
    )


def _understood(module: Any) -> bool:
    experts = getattr(module, "experts", None)
    if not isinstance(experts, torch.nn.ModuleList) or not hasattr(module, "gate"):
        return False
    first = experts[0]
    names = next((names for names in PROJECTIONS if hasattr(first, names[0])), ())
    linear = [getattr(first, name, None) for name in names]
    plain = bool(linear) and all(isinstance(each, torch.nn.Linear) and each.bias is None for each in linear)
    return plain and hasattr(first, "act_fn") and (hasattr(module, "moe") or hasattr(module, "top_k"))


def _widen(mixture: Any) -> None:
    """Raises `ExportError` for a mixture that chooses or weights its experts in another way."""
    rows = _some_rows(mixture.experts[0])
    expected = mixture(rows)
    mixture.gives_pair = isinstance(expected, tuple)
    if hasattr(mixture, "moe"):
        mixture.moe = MethodType(_mix_chosen, mixture)
    else:
        mixture.forward = MethodType(_mix, mixture)
    mixture.num_mixed = len(mixture.experts)
    mixture.experts = WideExperts(list(mixture.experts))
    before, after = (output[0] if mixture.gives_pair else output for output in (expected, mixture(rows)))
    if (after - before).abs().mean() > SAME * before.abs().mean():
        raise ExportError(
            f"{type(mixture).__name__} chooses its experts in a way that Braid cannot read from this version "
            "of transformers; transformers 5 has one form for all"
        )


def _some_rows(expert: Any) -> torch.Tensor:
    """Random inputs [1, 8, width] of an expert."""
    first = next(getattr(expert, names[0]) for names in PROJECTIONS if hasattr(expert, names[0]))
    rows = torch.randn(1, 8, first.in_features, generator=torch.Generator().manual_seed(1))
    return rows.to(first.weight.dtype)


def _mix(mixture: Any, hidden_states: torch.Tensor) -> Any:
    """The forward of Mixtral-like models: the top probabilities of a linear router weight the experts."""
    x = hidden_states.reshape(-1, hidden_states.shape[-1])
    scores = mixture.gate(x)
    weights, chosen = torch.topk(scores.softmax(-1, dtype=torch.float32), mixture.top_k, dim=-1)
    if getattr(mixture, "norm_topk_prob", True):
        weights = weights / weights.sum(-1, keepdim=True)
    mixed = _mix_chosen(mixture, x, chosen, weights.to(x.dtype))
    if hasattr(mixture, "shared_expert"):
        mixed = mixed + torch.sigmoid(mixture.shared_expert_gate(x)) * mixture.shared_expert(x)
    mixed = mixed.view(hidden_states.shape)
    return (mixed, scores) if mixture.gives_pair else mixed


def _mix_chosen(mixture: Any, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """x [tokens, width], chosen int64[tokens, k], weights [tokens, k] → [tokens, width]."""
    return mixture.experts(x, _spread(chosen, weights.to(x.dtype), mixture.num_mixed))


def _spread(chosen: torch.Tensor, weights: torch.Tensor, num_experts: int) -> torch.Tensor:
    """The weights of chosen experts [tokens, k] → of all experts [tokens, experts], zero for the others."""
    return ((chosen[:, :, None] == torch.arange(num_experts)) * weights[:, :, None]).sum(1)


def _gated(act: Any, both: torch.Tensor) -> torch.Tensor:
    """Gate and up in the halves of the last axis → the middle of a gated layer."""
    gate, up = both.chunk(2, dim=-1)
    return act(gate) * up


def _linear(weights: list[torch.Tensor], axis: int) -> torch.nn.Linear:
    weight = torch.cat(weights, axis)
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    return layer

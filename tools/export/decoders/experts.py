"""Finds the mixtures of experts of a transformers model, and replaces what computes their experts.

transformers 5 stacks the experts of a layer in tensors, in one of a few layouts; transformers 4 has a module
for each, and in each family a loop over those that were chosen, which no trace can follow.
"""

from __future__ import annotations

import re
import sys
from types import MethodType
from typing import Any

import torch

from tools.export.base.folder import ExportError
from tools.export.graphs.routed_experts import (
    CLAMPED,
    Activation,
    Gated,
    Network,
    RoutedExperts,
    Weight,
    recognised,
)

PROJECTIONS = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))
"""Names of an expert's three weights in the model families."""
SHARED = ("shared_expert", "shared_experts", "shared_mlp")
"""Names of the network that every token uses."""
SAME = 0.05
"""Allowed relative difference of a mixture before and after, above what half precision rounds."""
NUM_ROWS = 8
LAYER = re.compile(r"\.(\d+)\.")


def route_experts(model: torch.nn.Module) -> None:
    """Replace the experts of `model` in the supported forms by `RoutedExperts`; others stay unchanged.

    Raises `ExportError` for a mixture that chooses or weights its experts in another way.
    """
    with torch.no_grad():
        for place, parent in list(model.named_modules()):
            layer = _layer(f".{place}.")
            for name, experts in list(parent.named_children()):
                if (routed := _stacked(experts, layer)) is not None:
                    setattr(parent, name, routed)
            if _is_list_of_experts(parent):
                _replace_list(parent, layer)


def _layer(place: str) -> int:
    numbers = LAYER.findall(place)
    return int(numbers[0]) if numbers else 0


class _OfAllWeights(torch.nn.Module):
    """Routed experts that get weights for all experts, as those of gpt-oss in transformers 4."""

    def __init__(self, routed: RoutedExperts) -> None:
        super().__init__()
        self.routed = routed

    def forward(
        self, hidden_states: torch.Tensor, router_indices: torch.Tensor, routing_weights: torch.Tensor
    ) -> torch.Tensor:
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        mixed = self.routed(rows, router_indices, routing_weights.gather(1, router_indices))
        return mixed.reshape(hidden_states.shape)


class _WithCopies(torch.nn.Module):
    """Routed experts behind which a router may choose others that give back what they are given (LongCat).

    Such a choice is of the first expert here, with weight 0.
    """

    def __init__(self, routed: torch.nn.Module, num_experts: int) -> None:
        super().__init__()
        self.routed, self._num_experts = routed, num_experts

    def forward(self, rows: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        copies = chosen >= self._num_experts
        mixed: torch.Tensor = self.routed(
            rows, chosen.masked_fill(copies, 0), weights.masked_fill(copies, 0.0)
        )
        return mixed + rows * weights.masked_fill(~copies, 0.0).sum(-1, keepdim=True).to(rows.dtype)


def _stacked(experts: Any, layer: int) -> torch.nn.Module | None:
    """The experts of a module that has the weights of all of them in tensors; None for another module."""
    names = ("gate_up_proj", "up_proj", "down_proj")
    both, up, down = (getattr(experts, name, None) for name in names)
    first = both if both is not None else up
    if not all(isinstance(weight, torch.nn.Parameter) and weight.ndim == 3 for weight in (first, down)):
        return None
    num_experts, num_choices = len(down), len(first)
    ways = [_halves, _turns] if both is not None else [_whole]
    for split in ways:
        network = _network(experts, first[:num_experts], split, layer)
        if network is None:
            continue
        routed = RoutedExperts(network)
        if _computes(experts, routed):
            return routed if num_choices == num_experts else _WithCopies(routed, num_experts)
        if _computes(experts, all_weights := _OfAllWeights(routed)):
            return all_weights
    return None


def _halves(first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gate and up in the halves of axis 1."""
    gate, up = first.chunk(2, dim=1)
    return gate, up


def _turns(first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gate and up in turns on axis 1."""
    return first[:, ::2], first[:, 1::2]


def _whole(first: torch.Tensor) -> tuple[None, torch.Tensor]:
    """Experts without gate."""
    return None, first


def _network(experts: Any, first: torch.Tensor, split: Any, layer: int) -> Network | None:
    """The network of stacked experts whose gate and up are split in a way; None where they are not."""
    is_transposed = getattr(experts, "is_transposed", _is_plainly_clamped(experts))
    turned = (first, experts.down_proj)
    up_weights, down = (weights.transpose(1, 2) if is_transposed else weights for weights in turned)
    gate, up = split(up_weights)
    gated = _gated(experts)
    activation = gated and recognised(gated, *_numbers(experts))
    if activation is None or down.shape[1:] != (up.shape[2], up.shape[1]):
        return None
    biases = getattr(experts, "gate_up_proj_bias", getattr(experts, "up_proj_bias", None))
    gate_bias, up_bias = (None, None) if biases is None else split(biases)
    sides = Weight(up, up_bias), Weight(down, getattr(experts, "down_proj_bias", None))
    return Network(*sides, None if gate is None else Weight(gate, gate_bias), activation, layer)


def _numbers(experts: Any) -> tuple[float, float]:
    """alpha and limit of a clamped activation."""
    alpha, limit = (
        float(getattr(experts, name, getattr(experts, f"swiglu_{name}", 0.0)) or 0.0)
        for name in ("alpha", "limit")
    )
    return alpha, limit


def _gated(experts: Any) -> Gated | None:
    """What stacked experts compute of gates and ups [n]; None where they do not say it."""
    apply_gate, act_fn = getattr(experts, "_apply_gate", None), getattr(experts, "act_fn", None)
    if hasattr(experts, "gate_up_proj") and apply_gate is not None:
        return lambda gate, up: apply_gate(torch.stack([gate, up], -1))[:, 0]
    if _is_plainly_clamped(experts):
        return Activation(CLAMPED, *_numbers(experts))
    return act_fn and (lambda gate, up: act_fn(gate) * up)


def _is_plainly_clamped(experts: Any) -> bool:
    """Whether these are gpt-oss' in transformers 4, which say the numbers of what they compute alone."""
    return hasattr(experts, "alpha") and hasattr(experts, "limit") and not hasattr(experts, "_apply_gate")


def _computes(experts: Any, routed: RoutedExperts | _OfAllWeights) -> bool:
    """Whether both give the same for random rows."""
    inner = routed.routed if isinstance(routed, _OfAllWeights) else routed
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(NUM_ROWS, inner.up.shape[2], generator=generator).to(inner.up.dtype)
    chosen = torch.rand(NUM_ROWS, inner.num_experts, generator=generator).topk(2).indices
    weights = torch.rand(NUM_ROWS, 2, generator=generator).to(rows.dtype)
    if inner is not routed:
        weights = torch.zeros(NUM_ROWS, inner.num_experts, dtype=rows.dtype).scatter(1, chosen, weights)
    try:
        expected = experts(rows, chosen, weights)
    except (IndexError, RuntimeError, TypeError, ValueError):  # of another form
        return False
    own = routed(rows, chosen, weights)
    return expected.numel() == rows.numel() and _alike(expected.reshape(rows.shape), own)


def _alike(before: torch.Tensor, after: torch.Tensor) -> bool:
    return bool((after - before).abs().mean() <= SAME * before.abs().mean())


# Lists of experts


def _is_list_of_experts(module: Any) -> bool:
    experts = getattr(module, "experts", None)
    if not isinstance(experts, torch.nn.ModuleList) or not hasattr(module, "gate"):
        return False
    names = _projections(experts[0])
    plain = all(isinstance(getattr(experts[0], name), torch.nn.Linear) for name in names)
    return (
        bool(names)
        and plain
        and hasattr(experts[0], "act_fn")
        and (hasattr(module, "moe") or hasattr(module, "top_k"))
    )


def _projections(expert: Any) -> tuple[str, ...]:
    return next((names for names in PROJECTIONS if hasattr(expert, names[0])), ())


def _replace_list(mixture: Any, layer: int) -> None:
    """Raises `ExportError` for a mixture that chooses or weights its experts in another way."""
    experts = list(mixture.experts)
    first = getattr(experts[0], _projections(experts[0])[0]).weight
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(1, NUM_ROWS, first.shape[1], generator=generator).to(first.dtype)
    expected = mixture(rows)
    mixture.gives_pair = isinstance(expected, tuple)
    if hasattr(mixture, "moe"):
        mixture.moe = MethodType(_mix_chosen, mixture)
    else:
        mixture.forward = MethodType(_mix, mixture)
    mixture.experts = RoutedExperts(_listed(experts, layer))
    before, after = (output[0] if mixture.gives_pair else output for output in (expected, mixture(rows)))
    if not _alike(before, after):
        raise ExportError(
            f"{type(mixture).__name__} chooses its experts in a way that Braid cannot read from this version "
            "of transformers; transformers 5 has one form for all"
        )


def _listed(experts: list[Any], layer: int) -> Network:
    """The network of experts that are a module each."""
    sides = [[getattr(expert, name) for expert in experts] for name in _projections(experts[0])]
    gate, up, down = (
        Weight(
            torch.stack([linear.weight for linear in side]),
            None if side[0].bias is None else torch.stack([linear.bias for linear in side]),
        )
        for side in sides
    )
    activation = recognised(lambda gate, up: experts[0].act_fn(gate) * up, 0.0, 0.0)
    if activation is None:
        raise ExportError(f"experts with {type(experts[0].act_fn).__name__} are not in Braid's ONNX format")
    return Network(up, down, gate, activation, layer)


def _mix(mixture: Any, hidden_states: torch.Tensor) -> Any:
    """The forward of Mixtral-like models: the top probabilities of a linear router weight the experts."""
    x = hidden_states.reshape(-1, hidden_states.shape[-1])
    scores = mixture.gate(hidden_states)
    scores = scores.reshape(-1, scores.shape[-1])
    mixed = mixture.experts(x, *_chosen(mixture, scores))
    for name in SHARED:
        if (shared := getattr(mixture, name, None)) is not None:
            gate = getattr(mixture, f"{name}_gate", None)
            mixed = mixed + (shared(x) if gate is None else torch.sigmoid(gate(x)) * shared(x))
    mixed = mixed.view(hidden_states.shape)
    return (mixed, scores) if mixture.gives_pair else mixed


def _chosen(mixture: Any, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The experts that a router's outputs choose, and their weights."""
    mixer = getattr(sys.modules[type(mixture).__module__], "sparsemixer", None)
    if mixer is not None:  # PhiMoE's
        weights, chosen = mixer(scores, mixture.router_jitter_noise, training=False)
        return chosen, weights
    probabilities = scores.softmax(-1, dtype=torch.float32)
    correct = getattr(mixture, "moe_statics", lambda unchanged: unchanged)  # Ernie's
    chosen = torch.topk(correct(probabilities), mixture.top_k, dim=-1).indices
    weights = probabilities.gather(-1, chosen)
    if getattr(mixture, "norm_topk_prob", True):
        weights = weights / weights.sum(-1, keepdim=True)
    return chosen, weights


def _mix_chosen(mixture: Any, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """x [tokens, width], chosen int64[tokens, used], weights [tokens, used] → [tokens, width]."""
    mixed: torch.Tensor = mixture.experts(x, chosen, weights)
    return mixed

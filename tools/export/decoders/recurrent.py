"""Replaces the recurrent layers of transformers' models by modules that Braid's ONNX format can express.

Projections, activations, norms and gates are the model's own; what a token leaves for later ones is a node.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import silu, softplus

from tools.export.decoders.attention import Attention
from tools.export.decoders.recurrent_layer import RecurrentLayer
from tools.export.decoders.scans import Lightning, Mamba1, RgLru
from tools.export.graphs.recurrent_nodes import delta_net, mamba2

KEY_EPSILON = 1e-6
"""What transformers adds to the squares of a delta net's queries and keys before it divides by their root."""
MASKS = ("_update_linear_attn_mask", "_update_mamba_mask")
"""What makes masks of padding in transformers 4, by the numbers in a mask, which no trace can follow."""


def replace_recurrent(model: torch.nn.Module, attention: Attention) -> int:
    """Replace the recurrent layers of the supported forms; returns how many there were.

    Where `attention` lets every token attend to itself only, each token is a sequence of its own.
    """
    numbers, count = itertools.count(), 0
    for parent in list(model.modules()):
        for name in MASKS:
            if hasattr(parent, name):
                setattr(parent, name, lambda *_, **__: None)
        for name, layer in list(parent.named_children()):
            if (kind := _kind(layer)) is not None:
                setattr(parent, name, kind(layer, attention, numbers))
                count += 1
    return count


def _kind(layer: Any) -> Callable[..., torch.nn.Module] | None:
    for kind, names in FORMS.items():
        if all(hasattr(layer, name) for name in names):
            return kind
    return None


class ShortConv(RecurrentLayer):
    """LFM2's: a convolution between two gates."""

    def __init__(self, own: Any, attention: Attention, numbers: Iterator[int]) -> None:
        super().__init__(own, own.conv, attention)
        self._state = next(numbers)

    def compute(self, rows: torch.Tensor) -> torch.Tensor:
        before, after, read = self.in_proj(rows).chunk(3, dim=-1)
        projected: torch.Tensor = self.out_proj(after * self._convolved(before * read, self._state))
        return projected


class DeltaNet(RecurrentLayer):
    """A gated delta net, as of Qwen3-Next and, with other projections, Qwen3.5 and OLMo Hybrid."""

    def __init__(self, own: Any, attention: Attention, numbers: Iterator[int]) -> None:
        super().__init__(own, own.conv1d, attention)
        self._states = next(numbers), next(numbers)
        self._ordered = getattr(own, "fix_query_key_value_ordering", None)
        self._separate = hasattr(own, "g_proj")
        self._most_written = 2.0 if getattr(own, "allow_neg_eigval", False) else 1.0
        self._keys, self._values = (own.num_k_heads, own.head_k_dim), (own.num_v_heads, own.head_v_dim)
        self.register_buffer("decay", -own.A_log.detach().float().exp())
        self.register_buffer("step_bias", own.dt_bias.detach().float())

    def compute(self, rows: torch.Tensor) -> torch.Tensor:
        joined, gate, beta, alpha = self._projected(rows)
        key, value = (heads * size for heads, size in (self._keys, self._values))
        mixed = silu(self._convolved(joined, self._states[0])).split([key, key, value], dim=-1)
        parts = [
            part.unflatten(-1, sizes)
            for part, sizes in zip(mixed, (self._keys, self._keys, self._values), strict=True)
        ]
        decay = (self.decay * softplus(alpha.float() + self.step_bias)).to(rows.dtype)
        written = beta.sigmoid() * self._most_written
        attended = delta_net(*parts, decay, written, KEY_EPSILON, self._states[1])
        norm, out = (self.o_norm, self.o_proj) if self._separate else (self.norm, self.out_proj)
        normed = norm(attended.flatten(0, 2), gate.reshape(-1, self._values[1]))
        projected: torch.Tensor = out(normed.reshape(*rows.shape[:2], value))
        return projected

    def _projected(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values in one, gates, beta and alpha, each [sequences, tokens, …]."""
        if self._separate:
            joined = [self.q_proj(rows), self.k_proj(rows), self.v_proj(rows)]
            return torch.cat(joined, -1), self.g_proj(rows), self.b_proj(rows), self.a_proj(rows)
        if self._ordered is None:
            return self.in_proj_qkv(rows), self.in_proj_z(rows), self.in_proj_b(rows), self.in_proj_a(rows)
        *parts, gate, beta, alpha = self._ordered(self.in_proj_qkvz(rows), self.in_proj_ba(rows))
        return torch.cat([part.flatten(2) for part in parts], -1), gate, beta, alpha


class Mamba2(RecurrentLayer):
    """Mamba 2, as of Granite 4 H, Bamba, Nemotron-H, Zamba 2 and, with factors, Falcon-H1."""

    def __init__(self, own: Any, attention: Attention, numbers: Iterator[int]) -> None:
        super().__init__(own, own.conv1d, attention)
        self._states = next(numbers), next(numbers)
        self._heads, self._groups = (own.num_heads, own.head_dim), (own.n_groups, own.ssm_state_size)
        self._limit = getattr(own, "time_step_limit", (0.0, math.inf)) or (own.time_step_min, math.inf)
        self._factor, self._has_norm = (
            getattr(own, "ssm_in_multiplier", 1),
            getattr(own, "mamba_rms_norm", True),
        )
        self.register_buffer("factors", getattr(own, "mup_vector", None))
        self.register_buffer("decay", -own.A_log.detach().float().exp())
        self.register_buffer("step_bias", own.dt_bias.detach().float())
        self.register_buffer("skip", own.D.detach()[:, None])

    def compute(self, rows: torch.Tensor) -> torch.Tensor:
        inner, shared = (count * size for count, size in (self._heads, self._groups))
        joined = self.in_proj(rows * self._factor)
        joined = joined if self.factors is None else joined * self.factors
        gate, mixed, steps = joined.split([inner, inner + 2 * shared, self._heads[0]], dim=-1)
        mixed = silu(self._convolved(mixed, self._states[0]))
        flat, *groups = mixed.split([inner, shared, shared], dim=-1)
        values = flat.unflatten(-1, self._heads)
        written, read = (part.unflatten(-1, self._groups) for part in groups)
        steps = softplus(steps.float() + self.step_bias).clamp(*self._limit).to(rows.dtype)
        attended = mamba2(values, steps, written, read, self.decay, self._states[1]) + values * self.skip
        gated = self._gated(attended.flatten(2), gate)
        projected: torch.Tensor = self.out_proj(gated)
        return projected

    def _gated(self, attended: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        gated: torch.Tensor = self.norm(attended, gate) if self._has_norm else attended * silu(gate)
        return gated


FORMS: dict[Callable[..., torch.nn.Module], tuple[str, ...]] = {
    ShortConv: ("conv", "in_proj", "out_proj"),
    DeltaNet: ("A_log", "num_k_heads", "conv1d"),
    Mamba2: ("A_log", "D", "n_groups", "conv1d"),
    Mamba1: ("A_log", "D", "x_proj", "conv1d"),
    Lightning: ("slope_rate", "qkv_proj", "output_gate"),
    RgLru: ("rg_lru", "conv_1d"),
}
"""What replaces a layer, and what such a layer has."""

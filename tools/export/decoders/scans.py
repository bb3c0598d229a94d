"""Recurrent layers of other forms, whose states are those of Braid's Mamba 2 node.

Where each number of a state decays by itself (Mamba 1, RG-LRU), it is a head of one number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import silu, softplus

from tools.export.base.folder import ExportError
from tools.export.base.model_config import is_transformers_5
from tools.export.decoders.attention import Attention, Mode
from tools.export.decoders.recurrent_layer import RecurrentLayer
from tools.export.graphs.recurrent_nodes import mamba2

LEAST_DECAY = 1e-30
"""What a step of RG-LRU is at least: a gate that underflows decays by nothing, and is divided by."""


class Mamba1(RecurrentLayer):
    """Mamba 1, as of Jamba: every channel has a state of some numbers, each with a decay of its own.

    The nodes' heads are these numbers, those of all channels for the first number first, and their groups
    the numbers, so that each group reads and writes one.
    """

    def __init__(self, own: Any, attention: Attention, numbers: Iterator[int]) -> None:
        super().__init__(own, own.conv1d, attention)
        self._states = next(numbers), next(numbers)
        self._channels, self._size = own.A_log.shape
        self.register_buffer("decay", -own.A_log.detach().float().exp().transpose(0, 1).flatten())
        self.register_buffer("skip", own.D.detach())

    def compute(self, rows: torch.Tensor) -> torch.Tensor:
        mixed, gate = self.in_proj(rows).chunk(2, dim=-1)
        mixed = silu(self._convolved(mixed, self._states[0]))
        steps, written, read = self._selected(mixed)
        again = (1, 1, self._size)
        attended = mamba2(
            mixed.repeat(again)[..., None],
            steps.repeat(again),
            written[..., None],
            read[..., None],
            self.decay,
            self._states[1],
        )
        summed = attended.flatten(2).unflatten(2, (self._size, self._channels)).sum(2)
        projected: torch.Tensor = self.out_proj((summed + mixed * self.skip) * silu(gate))
        return projected

    def _selected(self, mixed: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Steps [sequences, tokens, channels], what is written and what is read [sequences, tokens, size]."""
        steps, written, read = self.x_proj(mixed).split(
            [self.dt_proj.in_features, self._size, self._size], dim=-1
        )
        if hasattr(self, "dt_layernorm"):  # Jamba's alone
            steps, written, read = self.dt_layernorm(steps), self.b_layernorm(written), self.c_layernorm(read)
        return softplus(self.dt_proj(steps)), written, read


class Lightning(RecurrentLayer):
    """Lightning attention, as of MiniMax: linear attention whose state decays by a constant of its head."""

    def __init__(self, own: Any, attention: Attention, numbers: Iterator[int]) -> None:
        super().__init__(own, None, attention)
        self._state = next(numbers)
        self._heads = own.num_attention_heads
        self.register_buffer("decay", -own.slope_rate.detach().float().flatten())

    def forward(self, hidden_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:
        """hidden_states [1, tokens, width] → the same, and no weights."""
        return super().forward(hidden_states), None

    def compute(self, rows: torch.Tensor) -> torch.Tensor:
        joined = self.act_fn(self.qkv_proj(rows)).unflatten(-1, (self._heads, -1))
        query, key, value = joined.chunk(3, dim=-1)
        steps = torch.ones_like(value[..., 0])
        attended = self.norm(mamba2(value, steps, key, query, self.decay, self._state).flatten(2))
        projected: torch.Tensor = self.out_proj(self.output_gate(rows).sigmoid() * attended)
        return projected


class RgLru(RecurrentLayer):
    """Griffin's recurrent block, as of RecurrentGemma: a convolution and a real-gated linear recurrent unit.

    The first token of a sequence is not damped, which its position says.
    """

    def __init__(self, own: Any, attention: Attention, numbers: Iterator[int]) -> None:
        if not is_transformers_5():
            raise ExportError("RecurrentGemma has attention of its own; export it with transformers 5")
        super().__init__(own, own.conv_1d, attention)
        self._states = next(numbers), next(numbers)
        unit = own.rg_lru
        del self.rg_lru
        self._blocks = unit.num_attention_heads
        for name in ("input", "recurrent"):
            weight, bias = getattr(unit, f"{name}_gate_weight"), getattr(unit, f"{name}_gate_bias")
            self.register_buffer(f"{name}_weight", weight.detach())
            self.register_buffer(f"{name}_bias", bias.detach().flatten())
        self.register_buffer("pace", 8.0 * softplus(unit.recurrent_param.detach().float()))
        self.register_buffer("decay", -torch.ones_like(self.pace))

    def forward(
        self, hidden_states: torch.Tensor, position_ids: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, None]:
        """hidden_states [1, tokens, width], position_ids [1, tokens] → the first, and no weights."""
        if self._attention.mode is Mode.ALONE:
            mixed = self._of_tokens(hidden_states.transpose(0, 1), position_ids.transpose(0, 1))
            return mixed.transpose(0, 1), None
        return self._of_tokens(hidden_states, position_ids), None

    def _of_tokens(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        branch = self._convolved(self.linear_x(rows), self._states[0])
        steps = (self.pace * self._gate(branch, "recurrent").float()).clamp(min=LEAST_DECAY)
        damped = (1 - (-2 * steps).exp()).sqrt()
        damped = torch.where(positions[..., None] == 0, 1.0, damped)
        added = (branch * self._gate(branch, "input")).float() * damped / steps
        ones = torch.ones_like(steps[..., :1, None])
        mixed = mamba2(added[..., None], steps, ones, ones, self.decay, self._states[1])
        mixed = mixed.flatten(2).to(rows.dtype)
        projected: torch.Tensor = self.linear_out(mixed * self.act_fn(self.linear_y(rows)))
        return projected

    def _gate(self, branch: torch.Tensor, name: str) -> torch.Tensor:
        weight = getattr(self, f"{name}_weight")
        blocks = branch.unflatten(-1, (self._blocks, 1, -1)) @ weight
        return (blocks.flatten(2) + getattr(self, f"{name}_bias")).sigmoid()

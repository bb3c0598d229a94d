"""What the modules that replace recurrent layers have in common."""

from __future__ import annotations

from typing import Any

import torch

from tools.export.decoders.attention import Attention, Mode
from tools.export.graphs.recurrent_nodes import short_conv


class RecurrentLayer(torch.nn.Module):
    """A layer with the projections of `own`, under their names; `convolution` becomes a node."""

    conv_weight: torch.Tensor
    conv_bias: torch.Tensor | None

    def __init__(self, own: Any, convolution: torch.nn.Conv1d | None, attention: Attention) -> None:
        super().__init__()
        for name, module in own.named_children():
            if module is not convolution:
                self.add_module(name, module)
        self._attention = attention
        if convolution is not None:
            bias = convolution.bias
            self.register_buffer("conv_weight", convolution.weight.detach().float())
            self.register_buffer("conv_bias", None if bias is None else bias.detach().float())

    def forward(self, hidden_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        """hidden_states [1, tokens, width] → the same."""
        if self._attention.mode is Mode.ALONE:
            return self.compute(hidden_states.transpose(0, 1)).transpose(0, 1)
        return self.compute(hidden_states)

    def compute(self, rows: torch.Tensor) -> torch.Tensor:
        """rows [sequences, tokens, width] → the same, with what the tokens before left."""
        raise NotImplementedError

    def _convolved(self, rows: torch.Tensor, state: int) -> torch.Tensor:
        return short_conv(rows, self.conv_weight, self.conv_bias, state)

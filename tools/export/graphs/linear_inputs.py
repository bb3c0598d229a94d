"""How large the numbers are that meet the weights of a model: where they are large, rounding costs most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.pytorch_utils import Conv1D

from tools.export.graphs.calibration import calibration_texts
from tools.export.graphs.routed_experts import RoutedExperts

NUM_TOKENS, LONGEST = 512, 256
"""Tokens of English that are read, and the most of them in one sequence."""
FEW_TOKENS = 32
"""An expert that met as many counts as much on its own as all experts of its layer count together."""


@torch.no_grad()
def mean_squares(model: Any, tokenizer: Any) -> dict[str, NDArray[np.float32]]:
    """Name of a weight → float32[inner], the mean square of each number that it is multiplied with; of the
    weights of routed experts, float32[experts, inner].
    """
    sums: dict[str, torch.Tensor] = {}
    mixtures = [(n, ExpertInputs(m)) for n, m in model.named_modules() if isinstance(m, RoutedExperts)]

    def watched(name: str) -> Any:
        def add(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            rows = inputs[0].reshape(-1, inputs[0].shape[-1]).float()
            sums[name] = sums.get(name, 0) + (rows * rows).mean(0)

        return add

    linears = [
        (n, module) for n, module in model.named_modules() if isinstance(module, (torch.nn.Linear, Conv1D))
    ]
    hooks = [module.register_forward_pre_hook(watched(f"{name}.weight")) for name, module in linears]
    hooks += [inputs.experts.register_forward_pre_hook(inputs.add) for _, inputs in mixtures]
    try:
        for ids in _sequences(tokenizer, model.config.get_text_config()):
            model(ids, attention_mask=torch.ones_like(ids), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    squares_by_name = {name: total.numpy() for name, total in sums.items()}
    for name, inputs in mixtures:
        squares_by_name |= {f"{name}.{side}": squares for side, squares in inputs.mean_squares().items()}
    return squares_by_name


class ExpertInputs:
    """Sums the squares of what the weights of a layer's experts are multiplied with."""

    def __init__(self, experts: RoutedExperts) -> None:
        self.experts = experts
        count, inner, width = experts.up.shape
        self._counts = torch.zeros(count)
        self._outer, self._inner = torch.zeros(count, width), torch.zeros(count, inner)

    def add(self, _: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        hidden_states, chosen, _ = inputs
        for expert, tokens, _, middle in self.experts.middles(hidden_states, chosen):
            self._counts[expert] += len(tokens)
            self._outer[expert] += hidden_states[tokens].float().square().sum(0)
            self._inner[expert] += middle.float().square().sum(0)

    def mean_squares(self) -> dict[str, NDArray[np.float32]]:
        """Side → float32[experts, inner].  Few tokens say little of an expert: the mean of its layer's
        experts counts beside them as `FEW_TOKENS` more.
        """
        outer, inner = (self._means(sums).numpy() for sums in (self._outer, self._inner))
        return {"up": outer, "gate": outer, "down": inner}

    def _means(self, sums: torch.Tensor) -> torch.Tensor:
        layer = sums.sum(0) / self._counts.sum().clamp(min=1)
        return (sums + FEW_TOKENS * layer) / (self._counts[:, None] + FEW_TOKENS)


def _sequences(tokenizer: Any, config: Any) -> Iterator[torch.Tensor]:
    """Ids int64[1, tokens]."""
    found: list[int] = []
    for text in calibration_texts():
        found += [number for number in tokenizer(text)["input_ids"] if number < config.vocab_size]
        if len(found) >= NUM_TOKENS:
            break
    size = min(LONGEST, getattr(config, "max_position_embeddings", None) or LONGEST)
    ids = torch.tensor(found[:NUM_TOKENS])[None]
    yield from (ids[:, begin : begin + size] for begin in range(0, ids.shape[1], size))

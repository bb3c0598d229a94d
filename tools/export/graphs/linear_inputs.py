"""How large the numbers are that meet the weights of a model: where they are large, rounding costs most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.pytorch_utils import Conv1D

from tools.export.graphs.calibration import calibration_texts

NUM_TOKENS, LONGEST = 512, 256
"""Tokens of English that are read, and the most of them in one sequence."""


@torch.no_grad()
def mean_squares(model: Any, tokenizer: Any) -> dict[str, NDArray[np.float32]]:
    """Name of a weight → float32[inner], the mean square of each number that it is multiplied with."""
    sums: dict[str, torch.Tensor] = {}

    def watched(name: str) -> Any:
        def add(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            rows = inputs[0].reshape(-1, inputs[0].shape[-1]).float()
            sums[name] = sums.get(name, 0) + (rows * rows).mean(0)

        return add

    linears = [
        (n, module) for n, module in model.named_modules() if isinstance(module, (torch.nn.Linear, Conv1D))
    ]
    hooks = [module.register_forward_pre_hook(watched(f"{name}.weight")) for name, module in linears]
    try:
        for ids in _sequences(tokenizer, model.config.get_text_config()):
            model(ids, attention_mask=torch.ones_like(ids), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return {name: total.numpy() for name, total in sums.items()}


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

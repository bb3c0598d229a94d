"""Layers that keep their largest activations alone (Gemma 3n), in operators that ONNX has."""

from __future__ import annotations

from functools import partial
from statistics import NormalDist
from typing import Any

import torch


def fix_sparsity(model: torch.nn.Module) -> None:
    """Compute the quantile of a normal distribution above which a layer keeps activations once."""
    for module in model.modules():
        share: Any = getattr(module, "activation_sparsity", 0.0)
        if share and hasattr(module, "_gaussian_topk"):
            module._gaussian_topk = partial(_above, NormalDist().inv_cdf(share))


def _above(quantile: float, x: torch.Tensor) -> torch.Tensor:
    """What x exceeds `quantile` of its last axis by, or 0."""
    mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True, unbiased=False)
    return torch.relu(x - (mean + deviation * quantile))

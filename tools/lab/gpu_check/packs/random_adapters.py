"""Random adapters of a random model, and the model into which one is merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.weights import AdapterWeights, LinearShape, LoraFactors

SPREAD = 0.05
"""Standard deviation of A and B: with a rank of 16 the product is half as large as new weights."""


def random_adapter(linears: Mapping[str, LinearShape], rank: int, seed: int) -> AdapterWeights:
    """An adapter of all linear layers, its numbers float16's."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> NDArray[np.float32]:
        drawn = SPREAD * rng.standard_normal(shape, np.float32)
        return drawn.astype(np.float16).astype(np.float32)

    factors = {
        name: LoraFactors(numbers(rank, shape.size_in), numbers(shape.size_out, rank))
        for name, shape in linears.items()
    }
    return AdapterWeights(rank, factors)


def merge(model: Any, adapter: AdapterWeights) -> None:
    """Add the adapter to the weights of a transformers model, in its type."""
    import torch

    with torch.no_grad():
        for name, each in adapter.linears.items():
            weight = model.get_parameter(f"model.{name}.weight")
            a, b = (torch.from_numpy(side).to(weight.device) for side in (each.a, each.b))
            weight.copy_(weight.float() + b @ a)

"""Muon (Jordan et al., 2024) in float32, for processors without fast bfloat16.

torch's own Muon computes in bfloat16, which costs more than the model's pass where the processor
has no instructions for it. Matrices of one shape are updated together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 4
MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):
    """Orthogonal updates, scaled to the size of Adam's, so that one learning rate serves both."""

    def __init__(self, matrices: Iterable[Tensor], weight_decay: float) -> None:
        super().__init__(matrices, {"lr": 0.0, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            for matrices in _by_shape(group["params"]):
                size = max(matrices[0].shape)
                updates = orthogonal(torch.stack([self._momentum(matrix) for matrix in matrices]))
                for matrix, update in zip(matrices, updates, strict=True):
                    matrix.mul_(1 - group["lr"] * group["weight_decay"])
                    matrix.sub_(update, alpha=group["lr"] * 0.2 * size**0.5)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """The gradient after Nesterov's momentum."""
        assert matrix.grad is not None
        state = self.state[matrix]
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        state["momentum"].lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(state["momentum"], MOMENTUM)


def _by_shape(matrices: list[Tensor]) -> Iterable[list[Tensor]]:
    groups: dict[torch.Size, list[Tensor]] = defaultdict(list)
    for matrix in matrices:
        if matrix.grad is not None:
            groups[matrix.shape].append(matrix)
    return groups.values()


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest matrices, about, whose singular values are all one: [count, rows, columns]."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x

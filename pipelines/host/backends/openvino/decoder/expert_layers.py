"""What computes the layers of routed experts of a decoder on OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExpertLayers:
    """How many layers are one node of Braid's own kernels, and how many a linear layer for each expert."""

    by_kernels: int = 0
    by_linears: int = 0

    @property
    def count(self) -> int:
        return self.by_kernels + self.by_linears

    def title(self, kernels: str) -> str:
        """What logs and the status page say; `kernels` names the kernels."""
        if not self.by_kernels:
            return f"{self.count} layers, a linear layer for each expert"
        return f"{self.by_kernels} of {self.count} layers by {kernels}"

"""What the next step computes, as the scheduler chose it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.sequences.sequence import Sequence, Slice


@dataclass(frozen=True, slots=True)
class Plan:
    """The slices of one step, and the sequences that could not be admitted.

    The first `num_decoding` slices decode; the last `num_scoring` belong to prompts that are scored, and give
    no token.  `sum(num_tokens + room) <= max_step_tokens` and `sum(len(scored) + room) <= max_scored_tokens`;
    the blocks that the slices will write to are free.  Without `speculates` no slice has a draft budget.
    """

    slices: list[Slice]
    num_decoding: int
    num_scoring: int
    refused: list[tuple[Sequence, Exception]]
    speculates: bool = False

    @property
    def sequences(self) -> list[Sequence]:
        """All sequences whose next token depends on this step, followers included."""
        return [member for slice in self.slices for member in slice.sequence.group]

    @property
    def scoring(self) -> list[Slice]:
        return self.slices[len(self.slices) - self.num_scoring :]

    def slots(self) -> NDArray[np.int32]:
        return np.array([slice.sequence.slot for slice in self.slices], np.int32)

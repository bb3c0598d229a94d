"""Which experts the tokens of a cache have chosen, and how often each expert was chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ops.cache_blocks import slot_mapping
from pipelines.inference.contracts.step import Step

UNKNOWN = -1
"""The number in place of the experts of a token that was not computed here, as of a stored prefix."""


@dataclass(frozen=True)
class RoutedShape:
    """The layers of a decoder that have routed experts, how many each has, and how many a token uses."""

    layers: int
    experts: int
    used: int


class ExpertRecord:
    """The choices of the tokens in the blocks of a cache, each written where its keys and values are.

    So a prompt that finds cached blocks also finds the choices of their tokens.  Belongs to the thread that
    runs the steps.  `counts` is int64[layers, experts]: how often each was chosen since the session was
    opened.  `are_returned`: replies have them that do not ask for them, too.
    """

    def __init__(self, shape: RoutedShape, block_tokens: int, are_returned: bool = False) -> None:
        self.shape = shape
        self.are_returned = are_returned
        self.counts = np.zeros((shape.layers, shape.experts), np.int64)
        self._block_tokens = block_tokens
        self._first = np.arange(shape.layers) * shape.experts
        self.allocate(0)

    def allocate(self, num_blocks: int) -> None:
        """Hold the choices of tokens in this many blocks."""
        cells = num_blocks, self._block_tokens, self.shape.layers, self.shape.used
        self._blocks = np.full(cells, UNKNOWN, np.int16)

    def empty(self, num_tokens: int) -> NDArray[np.int32]:
        """int32[num_tokens, layers, used], undefined: what `record` takes."""
        return np.empty((num_tokens, self.shape.layers, self.shape.used), np.int32)

    def record(self, step: Step, chosen: NDArray[np.int32]) -> None:
        """Write the choices of a step's tokens, int32[num_tokens, layers, used]."""
        if len(step.copies):
            self._blocks[step.copies[:, 1]] = self._blocks[step.copies[:, 0]]
        cells = slot_mapping(step.block_table, step.starts, step.positions, self._block_tokens)
        self._blocks.reshape(-1, *self._blocks.shape[2:])[cells] = chosen
        places = (chosen + self._first[:, None]).reshape(-1)
        self.counts += np.bincount(places, minlength=self.counts.size).reshape(self.counts.shape)

    @property
    def use(self) -> str:
        """How evenly the experts are used, for people."""
        tokens = self.num_choices // (self.shape.layers * self.shape.used)
        if not tokens:
            return "no token yet"
        return (
            f"{tokens} tokens, the busiest expert of a layer {self.busiest:.1f} times its even share, "
            f"{self.unused:.0%} of experts never"
        )

    @property
    def num_choices(self) -> int:
        """Choices of all tokens in all layers."""
        return int(self.counts.sum())

    @property
    def busiest(self) -> float:
        """How many times its even share the busiest expert of a layer has, mean of the layers; 1 is even."""
        most, all_of_layer = self.counts.max(1), self.counts.sum(1)
        return float((most / np.maximum(all_of_layer, 1)).mean() * self.shape.experts)

    @property
    def unused(self) -> float:
        """The part of all experts that was never chosen, 0 to 1."""
        return float((self.counts == 0).mean())

    def clear(self, block: int) -> None:
        """A block was replaced by one that was computed elsewhere."""
        self._blocks[block] = UNKNOWN

    def of(self, blocks: list[int], start: int, end: int) -> NDArray[np.int16]:
        """int16[end - start, layers, used]: what tokens [start, end) of a sequence of these blocks chose."""
        first = start // self._block_tokens
        rows = self._blocks[blocks[first : -(-end // self._block_tokens)]].reshape(
            -1, *self._blocks.shape[2:]
        )
        return rows[start - first * self._block_tokens :][: end - start]

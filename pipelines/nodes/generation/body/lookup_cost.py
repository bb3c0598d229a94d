"""Bounds the lookup node's own time: by a small share of all time, and what its draft tokens saved."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.speculation.step_cost import StepCost

LOOKUP_SHARE = 0.001
"""Share of all time that the node may take while none of its draft tokens is accepted."""
LOOKUP_TRIES = 200
"""Most searches that it may make of what its tokens saved, after they are no longer accepted."""
MOST_RESTS = 64
"""Most steps between two searches: a machine that was slow for a moment is not held against it for long."""
NODE_WEIGHT = 0.1
"""Weight of the last search in the average of the node's time."""


class LookupCost:
    """An account of seconds: it gets a share of all time and what the last draft tokens saved, and a search
    takes what searches take on average.
    """

    def __init__(self) -> None:
        self._held_s = 0.0
        self._node_s = 0.0
        self._share_s = 0.0
        self._drafted: dict[int, int] = {}
        self._num_true = 0
        self._num_rests = 0

    def record_accepted(self, slot: int, hits: int) -> None:
        """Record that `hits` of the next tokens of a slot were predicted, whether drafted or not."""
        if self._drafted:
            self._num_true += min(hits, self._drafted.get(slot, 0))

    def earn(self, num_decoding: int, cost: StepCost) -> None:
        """Count what the steps since the last search have earned."""
        alone_s = cost.seconds(num_decoding)
        if alone_s is not None:
            self._share_s = alone_s * LOOKUP_SHARE
            earned_s = self._share_s * (1 + self._num_rests) + self._saved_s(num_decoding, alone_s, cost)
            self._held_s = min(self._held_s + earned_s, LOOKUP_TRIES * self._node_s)
        self._num_true = self._num_rests = 0

    def draft_token(self, slots: list[int], counts: NDArray[np.int64] | None) -> None:
        """Record how many draft tokens each slot has in this step."""
        self._drafted = {} if counts is None else dict(zip(slots, counts.tolist(), strict=True))

    def took(self, seconds: float) -> None:
        """The search took so long; one that was interrupted counts for no more than two."""
        self._node_s = self._node_s or seconds
        self._node_s += (min(seconds, 2 * self._node_s) - self._node_s) * NODE_WEIGHT
        self._held_s = max(self._held_s, -self._node_s) - self._node_s

    def num_rests(self) -> int:
        """After a search that found nothing: how many steps pass until the account has paid for it."""
        lacking_s = max(0.0, -self._held_s)
        self._num_rests = min(MOST_RESTS, ceil(lacking_s / self._share_s)) if self._share_s else 0
        return self._num_rests

    def _saved_s(self, num_decoding: int, alone_s: float, cost: StepCost) -> float:
        """Seconds that the last draft tokens saved: of steps without them, less what verifying took."""
        if not self._num_true:
            return 0.0
        with_s = cost.seconds(num_decoding + sum(self._drafted.values())) or alone_s
        more_s = with_s - alone_s + cost.change_s
        return max(0.0, self._num_true * alone_s / num_decoding - more_s)

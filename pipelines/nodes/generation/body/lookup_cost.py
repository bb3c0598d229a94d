"""Decides whether a step can afford the lookup node's own time: a small share of all, and what drafts
saved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.host.engine.speculation.draft_lengths import ExplorationBudget
from pipelines.host.engine.speculation.step_cost import StepCost
from pipelines.host.engine.step import Step

LOOKUP_SHARE = 0.003
"""Share of all time that the node may take while none of its draft tokens is accepted."""
LOOKUP_TRIES = 200
"""Most steps it continues with after its tokens are no longer accepted."""
NODE_WEIGHT = 0.1
"""Weight of the last step in the average of the node's time."""


class LookupCost:
    """The seconds that the node takes, and those that its last draft tokens have saved."""

    def __init__(self) -> None:
        self._budget = ExplorationBudget(LOOKUP_SHARE, LOOKUP_TRIES)
        self._drafted: dict[int, int] = {}
        self._num_true = 0
        self._node_s = 0.0

    def is_affordable(self, step: Step, cost: StepCost) -> bool:
        alone_s = cost.seconds(step.num_sampled)
        if alone_s is None:
            return True
        self._budget.earn(alone_s, self._saved_s(step, alone_s, cost))
        self._num_true = 0
        return self._budget.pays(self._node_s)

    def took(self, seconds: float) -> None:
        self._node_s += (seconds - self._node_s) * NODE_WEIGHT

    def draft_token(self, slots: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        self._drafted = dict(zip(slots.tolist(), counts.tolist(), strict=True))

    def record_accepted(self, slot: int, hits: int) -> None:
        """Record that `hits` of the next tokens of a slot were predicted, whether drafted or not."""
        self._num_true += min(hits, self._drafted.get(slot, 0))

    def _saved_s(self, step: Step, alone_s: float, cost: StepCost) -> float:
        """Of the last draft tokens: what the tokens would have taken, less what it took to verify them."""
        if not self._num_true:
            return 0.0
        with_s = cost.seconds(step.num_sampled + sum(self._drafted.values())) or alone_s
        return max(0.0, self._num_true * alone_s / step.num_sampled - (with_s - alone_s))

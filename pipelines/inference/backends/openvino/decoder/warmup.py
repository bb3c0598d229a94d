"""The warm-up steps of a decoder, which run before requests need steps of their shapes."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter

from pipelines.inference.backends.openvino.paging.step_inputs import warmup_shapes

MAX_WARMUP_S = 0.5
"""How long a warm-up step may take, in seconds, by the time of one token; the first shape always runs."""
NUM_CHANGES = 3
"""Shapes whose first step after another one is timed."""
TOKENS_PER_READ = 16
"""Tokens of a wide step that take about as long as reading the weights once, i.e. as a step of one token."""

RunStep = Callable[[int, int], object]
"""Runs a step of that many sequences with that many new tokens each."""


class WarmupSteps:
    """Runs warm-up steps of the most common shapes one by one, and times those of one token each.

    `step_times_s`: number of sequences → seconds of a step with one token each.
    """

    def __init__(self) -> None:
        self._left: list[tuple[int, int]] = []
        self.step_times_s: dict[int, float] = {}
        self.changes_s: list[float] = []
        """Seconds that the first step of a shape after one of another shape took more than the next."""

    def plan(self, max_tokens: int, max_sequences: int) -> None:
        """Run steps of at most that many tokens and sequences from now on."""
        self._left = warmup_shapes(max_tokens, max_sequences)

    def run_next(self, run: RunStep) -> bool:
        """Run the steps of one more shape, if there is one; return whether more are left."""
        if self._left:
            self._time_step(run, *self._left.pop(0))
        self._left = [shape for shape in self._left if self._is_short(*shape)]
        return bool(self._left)

    def _is_short(self, num_seqs: int, num_tokens: int) -> bool:
        """Whether such a step is short enough that a new request does not wait long for its end."""
        return num_seqs * num_tokens * self.step_times_s.get(1, 0) < MAX_WARMUP_S * TOKENS_PER_READ

    def _time_step(self, run: RunStep, num_seqs: int, num_tokens: int) -> None:
        """Run a shape twice: the first step of a shape is slow, the time of the second is stored."""
        run(num_seqs, num_tokens)
        if num_tokens == 1:
            same_s = self.step_times_s[num_seqs] = _timed(run, num_seqs)
            if 1 < num_seqs <= NUM_CHANGES + 1:
                run(1, 2)  # not (1, 1), which runs by a graph of its own by now
                self.changes_s.append(_timed(run, num_seqs) - same_s)

    @property
    def shape_change_s(self) -> float:
        """The seconds that a step of another shape than the one before is longer; 0 before that is known."""
        return max(0.0, statistics.median(self.changes_s)) if self.changes_s else 0.0


def _timed(run: RunStep, num_seqs: int) -> float:
    start_s = perf_counter()
    run(num_seqs, 1)
    return perf_counter() - start_s

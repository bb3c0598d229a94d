"""How much background work a step holds, so that other requests do not feel it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from statistics import quantiles
from time import monotonic

from pipelines.inference.engine.sequences.sequence import NO_SLOT, Sequence

BESIDE_S = 10.0
"""After another request ended, the next one is expected for so long."""
MAX_RESTS = 8
"""Steps in a row without any background work."""
SHARE = 0.4
"""A step beside others takes at most this part of a first token: a new request waits for half of it, and so
its own first token is a fifth later, in the mean."""
LEAST_S = 0.003
"""A step may always be so long: small models lose more in the server and the client."""
MIN_TOKENS, FIRST_TOKENS = 4, 16
"""Background tokens that a step beside others may always have, and those of the first one."""
NUM_RESTS = 16
"""Latest rests that count."""


class BackgroundWork:
    """The tokens of background sequences in a step, by what else there is to do and by measured times.

    A new request waits for the end of the step that runs, and its first token takes as long as background
    work rests for it.  Beside others the number of tokens follows the steps' times: an eighth less after a
    step that was longer than it may be, a little more after another one.  So no time has to be foretold, and
    a step that was held up counts for little.
    """

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        """`most` is the limit without other requests."""
        self._most = most
        self._clock = clock
        self._others_s = -inf  # when another sequence was there
        self._beside = float(FIRST_TOKENS)
        self._is_beside = False
        self._num_rests, self._rested_s = 0, 0.0
        self._first_s: deque[float] = deque(maxlen=NUM_RESTS)

    def num_tokens(self, others: list[Sequence]) -> int:
        """Background tokens of the next step; `others` are all other sequences that run, and of those
        that wait the next ones.

        0 while one of them waits or computes its prompt, but not in more than MAX_RESTS steps in a row.
        """
        if others:
            self._others_s = self._clock()
        if (
            any(sequence.slot == NO_SLOT or sequence.num_pending > 1 for sequence in others)
            and self._num_rests < MAX_RESTS
        ):
            self._num_rests += 1
            return 0
        self._end_rest()
        self._is_beside = self._clock() - self._others_s <= BESIDE_S
        return min(self._most, int(self._beside)) if self._is_beside else self._most

    def learn(self, num_tokens: int, seconds: float) -> None:
        """Record a step with that many background tokens."""
        if self._num_rests:
            self._rested_s += seconds
        elif self._is_beside and seconds > self._longest_s():
            self._beside = max(MIN_TOKENS, self._beside * 7 / 8)
        elif self._is_beside and num_tokens >= int(self._beside):
            self._beside = min(self._most, self._beside + max(0.25, self._beside / 32))

    def _end_rest(self) -> None:
        if self._rested_s:
            self._first_s.append(self._rested_s)
        self._num_rests, self._rested_s = 0, 0.0

    def _longest_s(self) -> float:
        """What a step beside others may take: of the rests, one of the shorter counts."""
        known = self._first_s
        first_s = quantiles(known)[0] if len(known) > 1 else sum(known)
        return max(LEAST_S, SHARE * first_s)

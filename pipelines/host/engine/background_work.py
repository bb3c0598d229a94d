"""How much background work a step holds, so that other requests do not feel it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from statistics import median
from time import monotonic
from typing import NamedTuple

from pipelines.host.engine.sequence import NO_SLOT, Sequence


class Longer(NamedTuple):
    """How much longer background work makes a step: in times of a short step, or `least_s` where that is
    more.
    """

    times: float
    least_s: float


ALONE, BESIDE = Longer(8.0, 0.04), Longer(1.5, 0.003)
"""Without other requests, and beside them.  Least seconds are what small models lose elsewhere anyway."""
BESIDE_S = 10.0
"""After another request ended, the next one is expected for so long."""
MAX_RESTS = 8
"""Steps in a row without any background work."""
SHORT, WIDE = 8, 16
"""Most tokens of a short step, which takes about as long as one of a single token; fewest of a wide one,
whose time is taken as that of its tokens.  A step may always be wide, or a slow one would count forever."""
NUM_SHORT, NUM_WIDE = 64, 32
"""Latest steps that count."""


class BackgroundWork:
    """The tokens of background sequences in a step, by what else there is to do and by measured times.

    A new request waits for the end of the step that runs.  So background work makes a step longer by some
    times of a short one: `most` tokens, or fewer where that many take longer, but never less than WIDE.
    """

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        self._most = most
        self._clock = clock
        self._others_s = -inf  # when another sequence was there
        self._num_rests = 0
        self._short_s: deque[float] = deque(maxlen=NUM_SHORT)
        self._token_s: deque[float] = deque(maxlen=NUM_WIDE)

    def seed(self, seconds: Mapping[int, float]) -> None:
        """Record what idle steps took, tokens → seconds."""
        for num_tokens, step_s in seconds.items():
            self.learn(num_tokens, step_s)

    def learn(self, num_tokens: int, seconds: float) -> None:
        """Record a step."""
        if num_tokens <= SHORT:
            self._short_s.append(seconds)
        elif num_tokens >= WIDE:
            self._token_s.append(seconds / num_tokens)

    def num_tokens(self, others: list[Sequence]) -> int:
        """Those of the next step; `others` are sequences that are not background: all that run, and of those
        that wait the next ones.

        0 while one of them waits or computes its prompt, but not in more than MAX_RESTS steps in a row.
        """
        if others:
            self._others_s = self._clock()
        if any(one.slot == NO_SLOT or one.num_pending > 1 for one in others) and self._num_rests < MAX_RESTS:
            self._num_rests += 1
            return 0
        self._num_rests = 0
        return self._fitting(ALONE if self._clock() - self._others_s > BESIDE_S else BESIDE)

    def _fitting(self, longer: Longer) -> int:
        """Tokens that make a step so much longer."""
        if not self._token_s:
            return self._most
        more_s = max(longer.times * min(self._short_s, default=0.0), longer.least_s)
        return min(self._most, max(WIDE, round(more_s / median(self._token_s))))

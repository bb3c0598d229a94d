"""How much of prompts a step computes in which other sequences decode, so that these do not wait long."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

LEAST = 64
"""Tokens of prompts that a step may always have: fewer would take longer for each."""
ROUND = 32
"""Pieces are a multiple of this: each new number of tokens takes a session some time."""
NUM_STEPS = 8
"""Latest steps with prompts that count: as a context grows, its tokens take longer."""


class PromptPieces:
    """The tokens of prompts in a step that also decodes: those that fit in `max_step_s`, by measured times.

    The time of a whole step is taken as that of its prompt tokens, so what decodes in it leaves less to them.
    0 seconds: no limit.
    """

    def __init__(self, max_step_s: float) -> None:
        self._max_step_s = max_step_s
        self._token_s: deque[float] = deque(maxlen=NUM_STEPS)

    def seed(self, seconds: Mapping[int, float]) -> None:
        """Record what idle steps took, tokens → seconds."""
        for num_tokens, step_s in seconds.items():
            self.learn(num_tokens, step_s)

    def learn(self, num_tokens: int, seconds: float) -> None:
        """Record a step with that many tokens of prompts."""
        if num_tokens >= LEAST:
            self._token_s.append(seconds / num_tokens)

    def limit(self, most: int) -> int:
        """Tokens of prompts in the next step, at most `most`."""
        if not self._max_step_s or not self._token_s:
            return most
        fitting = self._max_step_s / max(median(self._token_s), 1e-9)
        return most if fitting >= most else min(most, max(LEAST, int(fitting) // ROUND * ROUND))

"""Estimates the seconds of a step by its number of tokens, learnt from the steps that ran."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

EXACT = 8
"""Up to this number of tokens each size is learnt separately; above, there are four sizes per doubling."""
MAX_SAMPLES = 8
"""Most recent steps of a size whose times are stored."""
TRUSTED = 3
"""A size with fewer samples is unknown."""
SPACING = 4
"""One in this number of steps of a known size is sampled: learning takes as long as planning."""
STALE = 512
"""Steps of other sizes after which the one in use should be seen again,"""
EXPIRED = 1024
"""and after which samples are dropped, so that no estimate is used indefinitely."""


@dataclass(slots=True)
class Size:
    """Steps of about one size, the latest last: at most MAX_SAMPLES.

    `typical`: tokens and seconds; one of the shortest, for what disturbs a step only makes it longer.
    """

    seen: int = 0  # when, in steps
    num_tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    typical: tuple[float, float] = (0.0, 0.0)

    def add(self, num_tokens: int, seconds: float, now: int) -> None:
        self.seen = now
        self.num_tokens = [*self.num_tokens[1 - MAX_SAMPLES :], num_tokens]
        self.seconds = [*self.seconds[1 - MAX_SAMPLES :], seconds]
        ordered = sorted(self.seconds)
        self.typical = sum(self.num_tokens) / len(self.num_tokens), ordered[(len(ordered) - 1) // 4]


class StepCost:
    """The measured seconds of a step by its number of tokens.

    Between two known sizes it is a straight line, beyond the largest the last of these goes on.  A size next
    to the one in use is to be tried where it is not known: what a few more tokens take can only be measured.

    Estimates are of a step after one of as many tokens; after another one it takes `change_s` more, because
    the session prepares its operators anew.  The first step of each number of tokens is ignored: a new shape
    takes many times longer.
    """

    def __init__(self) -> None:
        self.change_s = 0.0
        self.last = 0  # tokens of the step before
        self._sizes: dict[int, Size] = {}
        self._shapes: set[int] = set()
        self._now = 0
        self._excluded_s = 0.0
        self._known: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._fitted = 0  # when, in steps
        self._of_fit: dict[Hashable, Any] = {}  # what was computed from it

    def learn(self, num_tokens: int, seconds: float) -> None:
        """Record a step: `seconds` include what was excluded."""
        self._now += 1
        own_s, self._excluded_s = max(0.0, seconds - self._excluded_s), 0.0
        changes, self.last = num_tokens != self.last, num_tokens
        if num_tokens not in self._shapes:
            self._shapes.add(num_tokens)
            return
        size = self._sizes.setdefault(_bucket(num_tokens), Size())
        if self._is_known(size) and self._now - size.seen < SPACING:
            return
        if self._now - size.seen > EXPIRED:
            size.num_tokens, size.seconds = [], []
        before = size.typical if len(size.seconds) >= TRUSTED else None
        size.add(num_tokens, own_s - min(self.change_s, own_s / 2) * changes, self._now)
        if size.typical != before or self._now - self._fitted > STALE:
            self._known = None

    def seed_cost(self, seconds: Mapping[int, float], change_s: float = 0.0) -> None:
        """Tokens → seconds of idle steps, used for sizes without samples; and what a change of size takes."""
        self.change_s = change_s
        for num_tokens, step_s in seconds.items():
            size = self._sizes.setdefault(_bucket(num_tokens), Size())
            for _ in range(TRUSTED - len(size.seconds)):
                size.add(num_tokens, step_s, self._now)
        self._shapes.update(seconds)
        self._known = None

    def exclude(self, seconds: float) -> None:
        """Exclude seconds of the running step that are spent on speculation."""
        self._excluded_s += seconds

    def seconds(self, num_tokens: int) -> float | None:
        """What a step of `num_tokens` would take; None while nothing is known."""
        return self.once((num_tokens,), StepCost._one)

    def _one(self, num_tokens: int) -> float | None:
        found = self.curve(np.array([num_tokens]))
        return None if found is None else float(found[0])

    def once(self, key: tuple[float, ...], compute: Callable[..., T]) -> T:
        """`compute(self, *key)`, computed once as long as the estimates stay as they are."""
        if self._known is None:
            self._known = self._fit()
        named = (compute, *key)
        if named not in self._of_fit:
            self._of_fit[named] = compute(self, *key)
        found: T = self._of_fit[named]
        return found

    def curve(self, nums_tokens: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Seconds of steps of these sizes: float64 of their shape, never falling where they rise."""
        self._known = self._known or self._fit()
        tokens, seconds = self._known
        if not len(tokens):
            return None
        within = np.interp(nums_tokens, tokens, seconds)
        slope = (seconds[-1] - seconds[-2]) / (tokens[-1] - tokens[-2]) if len(tokens) > 1 else 0.0
        return np.asarray(within + slope * np.maximum(nums_tokens - tokens[-1], 0))

    def is_stale(self, num_tokens: int) -> bool:
        """Whether steps of about `num_tokens` should be seen again before others are compared with them."""
        size = self._sizes.get(_bucket(num_tokens))
        return size is None or len(size.seconds) < TRUSTED or self._now - size.seen > STALE

    def untried(self, num_tokens: int) -> int:
        """Tokens that make a step a quarter larger, which is the next size; 0 where that is known."""
        more = max(1, num_tokens // 4)
        size = self._sizes.get(_bucket(num_tokens + more))
        return 0 if size is not None and self._is_known(size) else more

    @property
    def largest(self) -> int:
        """The largest known size, in tokens; 0 while none is known."""
        self._known = self._known or self._fit()
        return int(self._known[0].max(initial=0))

    def _is_known(self, size: Size) -> bool:
        return len(size.seconds) >= TRUSTED and self._now - size.seen <= EXPIRED

    def _fit(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Tokens, ascending, and seconds that neither fall nor grow faster than the tokens do.

        Where they fell, they are halfway between the two nearest lines that do not.
        """
        self._fitted, self._of_fit = self._now, {}
        known = sorted(size.typical for size in self._sizes.values() if self._is_known(size))
        tokens, seconds = np.array(known, np.float64).reshape(-1, 2).T
        rising = np.maximum.accumulate(seconds)
        falling = np.minimum.accumulate(seconds[::-1])[::-1]
        return tokens, tokens * np.minimum.accumulate((rising + falling) / 2 / tokens)


def _bucket(num_tokens: int) -> int:
    return num_tokens if num_tokens <= EXACT else EXACT + round(4 * log2(num_tokens / EXACT))

"""A guide without a grammar: what it allows, forces and ends is a hash of the tokens it was given."""

from __future__ import annotations

from copy import copy
from random import Random
from typing import Any

import numpy as np

from pipelines.inference.contracts.guide import GuideError, MaskTiming

MAX_FORCED = 5


class FakeGuide(MaskTiming):
    """Two guides of one seed that are given the same tokens say the same; a token too many changes all.

    Forced tokens may be any, end tokens and stop tokens too.  AssertionError for a token that was not
    allowed.
    """

    def __init__(self, seed: int, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.num_forced = 0
        self.finished = False
        self._follow([seed])

    def _follow(self, token_ids: list[int]) -> None:
        for token_id in token_ids:
            self._state = hash((getattr(self, "_state", 0), token_id))
        draw = self._draw = Random(self._state)
        self._restricts = draw.random() < 0.7
        self._allowed = sorted(draw.sample(range(self.vocab_size), draw.choice([1, 3, 40])))

    def restricts(self) -> bool:
        return self._restricts

    def fill(self, bits: Any) -> None:
        flags = np.zeros(len(bits) * 32, np.uint8)
        flags[self._allowed] = 1
        bits[:] = np.packbits(flags, bitorder="little").view(np.int32)

    def copy(self) -> FakeGuide:
        return copy(self)  # what it draws is drawn anew for each token

    def append(self, token_id: int) -> list[int]:
        assert not self.finished, "it had said that nothing may follow"
        assert not self._restricts or token_id in self._allowed, f"{token_id} was not allowed"
        self._follow([token_id])
        draw = self._draw
        if draw.random() < 0.02:
            raise GuideError("nothing fits")
        if draw.random() < 0.01:
            raise RuntimeError("a fault of the guide's own")
        count = draw.randint(1, MAX_FORCED) if draw.random() < 0.3 else 0
        forced = [draw.randrange(self.vocab_size) for _ in range(count)]
        self._follow(forced)
        self.num_forced += len(forced)
        self.finished = draw.random() < 0.04
        return forced

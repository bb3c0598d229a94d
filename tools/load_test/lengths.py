"""How long prompts and outputs are: one length, or a distribution of lengths, in tokens."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

FORM = re.compile(r"(\d+)(?:([-~])(\d+))?")


@dataclass(frozen=True)
class Lengths:
    """`low` to `high` evenly; with a `deviation`, normal around `low`, and at least 1."""

    low: int
    high: int
    deviation: int = 0

    @classmethod
    def read(cls, text: str) -> Lengths:
        """Reads `128`, `64-256` or `128~32` (mean and deviation).  Raises ValueError."""
        match = FORM.fullmatch(text.replace(" ", ""))
        if match is None:
            raise ValueError(f"{text} is no length: 128, 64-256 (evenly) or 128~32 (mean and deviation)")
        first, kind, second = int(match[1]), match[2], int(match[3] or 0)
        lengths = cls(first, second if kind == "-" else first, second if kind == "~" else 0)
        if not 1 <= lengths.low <= lengths.high:
            raise ValueError(f"{text}: a length is at least 1, and the first is the least")
        return lengths

    def draw(self, source: random.Random) -> int:
        if self.deviation:
            return max(1, round(source.gauss(self.low, self.deviation)))
        return source.randint(self.low, self.high)

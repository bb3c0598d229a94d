"""The tokens that calls of other models take, which a composed graph makes for one request."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple


class Spent(NamedTuple):
    """Tokens of prompts and texts, those of them that were in a cache, and tokens of replies."""

    num_prompt: int = 0
    num_cached: int = 0
    num_output: int = 0

    def plus(self, other: Spent) -> Spent:
        return Spent(*(one + another for one, another in zip(self, other, strict=True)))


NOTHING_SPENT = Spent()


def spent_by_all(each: Iterable[Spent]) -> Spent:
    """The sum."""
    return reduce(Spent.plus, each, NOTHING_SPENT)

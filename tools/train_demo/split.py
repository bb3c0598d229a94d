"""Splits words into those for training and those for the held-out set."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .rewording import reworded

REWORDED_SHARE = 0.5
T = TypeVar("T")


@dataclass(frozen=True)
class Split(Generic[T]):
    """Alternatives of one kind; `seen` and `unseen` share nothing, and `seen` is not empty."""

    seen: tuple[T, ...]
    unseen: tuple[T, ...] = ()


def listed(text: str) -> tuple[str, ...]:
    """The words of `text`, which commas separate."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def phrasings(text: str) -> Split[str]:
    """One alternative per line of `text`; a line that begins with `* ` is held out."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    held_out = tuple(line[2:] for line in lines if line.startswith("* "))
    return Split(tuple(line for line in lines if not line.startswith("* ")), held_out)


def words(seen: str, unseen: str = "") -> Split[str]:
    """Alternatives separated by commas: those for training, then those held out."""
    return Split(listed(seen), listed(unseen))


class Draw:
    """A seeded source of choices that keeps the two sides of every split apart."""

    def __init__(
        self, seed: int | str, held_out: bool = False, known_words: bool = False, rewords: bool = False
    ) -> None:
        """With `known_words` only phrasings and pairs of numbers are held out, and words are trained ones.

        With `rewords` trained phrasings are at times written in another way.
        """
        self.random = random.Random(seed)
        self.held_out = held_out
        self.known_words = known_words
        self.rewords = rewords and not held_out

    def of(self, split: Split[T]) -> T:
        """One alternative of this draw's side; of the seen side where nothing is held out."""
        return self._side(split, self.held_out and not self.known_words)

    def phrase(self, split: Split[str], **slots: object) -> str:
        """A phrasing of this draw's side with its `{slots}` filled in."""
        return self.phrasing(split).format(**slots)

    def phrasing(self, split: Split[str]) -> str:
        """One of this draw's side, with its `{slots}`."""
        phrasing = self._side(split, self.held_out)
        if self.rewords and self.chance(REWORDED_SHARE):
            phrasing = reworded(phrasing, split.unseen, self.random)
        return phrasing

    def _side(self, split: Split[T], unseen: bool) -> T:
        return self.random.choice(split.unseen if unseen and split.unseen else split.seen)

    def any(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different options in random order."""
        return self.random.sample(options, count)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return self.random.randint(low, high)

    def weighted(self, weights: Mapping[T, float]) -> T:
        return self.random.choices(list(weights), weights=list(weights.values()))[0]

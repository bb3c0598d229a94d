"""Probabilities of options → answers: the choice, the score, and how concentrated the probabilities are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.nodes.decisions.questions import Question


@dataclass(frozen=True, slots=True)
class Answer:
    """The probabilities of a question's options, which sum to 1; of a predicate those of false and true.

    None: the model does not answer this question, and `reason` says why.  `label_mass` is how probable all
    words that are answers were together, `is_likeliest` whether one of them was likelier than any other text.
    """

    question: Question
    probabilities: list[float] | None
    label_mass: float = 1.0
    is_likeliest: bool = True
    reason: str = ""

    @property
    def best(self) -> int:
        """The index of the most probable option."""
        given = self.probabilities or []
        return max(range(len(given)), key=given.__getitem__)

    @property
    def score(self) -> float:
        """The mean level, counted from 0."""
        return sum(i * share for i, share in enumerate(self.probabilities or []))

    @property
    def confidence(self) -> float:
        """How concentrated the probabilities are, from 0 to 1, by the formulas that TypeSafe publishes."""
        shares = self.probabilities or []
        return _spread(shares, self.best) if self.question.kind == "score" else _lead(shares)


def _lead(shares: Sequence[float]) -> float:
    """How far the likeliest of k options is above 1/k."""
    even = 1 / len(shares)
    return 1.0 if len(shares) == 1 else max(0.0, (max(shares) - even) / (1 - even))


def _spread(shares: Sequence[float], mode: int) -> float:
    """How near the levels are to the likeliest one, beside levels that are all equally probable."""
    middle = (len(shares) - 1) / 2
    even = sum(abs(i - middle) for i in range(len(shares))) / len(shares)
    found = sum(share * abs(i - mode) for i, share in enumerate(shares))
    return max(0.0, 1 - found / even) if even else 1.0


def softmax(values: Sequence[float]) -> list[float]:
    """Shares that sum to 1; equal ones where every value is minus infinity."""
    highest = max(values)
    if highest == -math.inf:
        return [1 / len(values)] * len(values)
    powers = [math.exp(value - highest) for value in values]
    return [power / sum(powers) for power in powers]


def sigmoid(value: float) -> float:
    """The logistic function: a share between 0 and 1, without overflow."""
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))


def log_sum(values: Sequence[float]) -> float:
    """The logarithm of the sum of the powers; minus infinity for none."""
    highest = max(values, default=-math.inf)
    if highest == -math.inf:
        return highest
    return highest + math.log(sum(math.exp(value - highest) for value in values))

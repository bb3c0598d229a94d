"""How far the answers of a server are from those of transformers, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tools.lab.lm_eval.evaluating import Outcome

WITHIN = 1e-3
"""The most by which a log-likelihood may differ where the arithmetic is the same."""


@dataclass(frozen=True)
class Gap:
    """The mean and the largest difference of log-likelihoods; `same`: of `items` with choices, those where
    the same one is the likeliest.
    """

    mean: float
    most: float
    same: int
    items: int


def gap(reference: Outcome, other: Outcome) -> Gap:
    """Raises KeyError where the items are not the same."""
    apart, same, items = [], 0, 0
    for part, answers in reference.logprobs.items():
        for item, logprobs in answers.items():
            others = other.logprobs[part][item]
            apart += [abs(a - b) for a, b in zip(logprobs, others, strict=True)]
            same += len(others) > 1 and logprobs.index(max(logprobs)) == others.index(max(others))
            items += len(others) > 1
    if not all(map(math.isfinite, apart)):
        return Gap(math.inf, math.inf, same, items)
    return Gap(sum(apart) / len(apart), max(apart), same, items)


def faults(reference: Outcome, other: Outcome) -> list[str]:
    """In which way an outcome that should equal the reference does not."""
    apart = gap(reference, other)
    found = []
    if not apart.most <= WITHIN:
        found.append(f"log-likelihoods differ by up to {apart.most:.3g}, more than {WITHIN:g}")
    for part in reference.scores:
        if other.scores[part]["acc"] != reference.scores[part]["acc"]:
            found.append(f"the accuracies of {part} differ")
    return found


def table(reference: Outcome, found: dict[str, Outcome]) -> Iterator[str]:
    """One line for transformers, then one for each title."""
    yield "| | choices | same choice | cloze | perplexity | difference of log-likelihoods: mean, largest |"
    yield "|---|---|---|---|---|---|"
    yield f"| transformers, f32 | {_scores(reference, '')} | |"
    for title, outcome in found.items():
        apart = gap(reference, outcome)
        same = f"{apart.same} of {apart.items}"
        yield f"| {title} | {_scores(outcome, same)} | {apart.mean:.2g}, {apart.most:.2g} |"


def _scores(outcome: Outcome, same: str) -> str:
    choices, cloze = outcome.scores["choices"], outcome.scores["cloze"]
    return f"{choices['acc']:.2%} | {same} | {cloze['acc']:.2%} | {cloze['perplexity']:.4f}"

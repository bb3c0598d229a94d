"""The reply of moderations, and the judgement of one input from which a result is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from server.apis.moderations.categories import CATEGORIES
from server.schema.reply_models import Reply


@dataclass
class Judgement:
    """How harmful one input is: `scores` are those of OpenAI's categories that are not 0.

    `others` are the scores of what the model calls by its own names; `flagged` is its own verdict.
    """

    flagged: bool = False
    scores: dict[str, float] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("text",)

    def add(self, name: str, categories: tuple[str, ...], score: float) -> None:
        """Note the score of what a model calls `name`; a category has the highest of its scores."""
        self.others[name] = max(score, self.others.get(name, 0.0))
        for category in categories:
            self.scores[category] = max(score, self.scores.get(category, 0.0))


class ModerationResult(Reply):
    """`model_scores` is Braid's own: the scores by the names that the model itself has."""

    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, float]
    category_applied_input_types: dict[str, list[str]]
    model_scores: dict[str, float]


class Moderation(Reply):
    id: str
    model: str
    results: list[ModerationResult]


THRESHOLD = 0.5
"""From this score on a category holds."""


def result(judgement: Judgement) -> ModerationResult:
    """A result with all categories."""
    scores = {name: judgement.scores.get(name, 0.0) for name in CATEGORIES}
    holds = {name: score >= THRESHOLD for name, score in scores.items()}
    return ModerationResult(
        flagged=judgement.flagged or any(holds.values()),
        categories=holds,
        category_scores=scores,
        category_applied_input_types={
            name: [*judgement.kinds] if name in judgement.scores else [] for name in CATEGORIES
        },
        model_scores=judgement.others,
    )

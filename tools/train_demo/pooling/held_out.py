"""The held-out examples, made from the corpus and kept in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..split import Draw, Split
from .corpus.facts import Question, question
from .corpus.reviews import Review, review
from .corpus.topics import Text, topic_text

FOLDER = Path(__file__).with_name("held_out")
SEED = 2026
NUM_QUESTIONS, NUM_REVIEWS, NUM_TEXTS = 200, 400, 500
OTHERS = 19  # passages beside the right one


def questions() -> list[Question]:
    """Of phrasings, sentences and names that training never saw."""
    return _different(lambda draw: question(draw, OTHERS), NUM_QUESTIONS)


def questions_about_new_names() -> list[Question]:
    """About names that training never saw, in phrasings and sentences that it did see."""
    return _different(lambda draw: question(draw, OTHERS), NUM_QUESTIONS, _KnownPhrasings(SEED, True))


class _KnownPhrasings(Draw):
    def phrase(self, split: Split[str], **slots: object) -> str:
        return self.any(split.seen).format(**slots)


def reviews() -> list[Review]:
    """Of sentences that training never saw, in words that it did see."""
    return _different(review, NUM_REVIEWS, Draw(SEED, True, known_words=True))


def reviews_in_new_words() -> list[Review]:
    """Of sentences that training never saw, about aspects and with opinions that it never saw either."""
    return _different(review, NUM_REVIEWS)


def texts() -> list[Text]:
    """The same of topics."""
    return _different(topic_text, NUM_TEXTS)


def _different(make: Callable[[Draw], Any], count: int, draw: Draw | None = None) -> list[Any]:
    """So many, no two of one text."""
    draw = draw or Draw(SEED, held_out=True)
    found: dict[str, Any] = {}
    while len(found) < count:
        one = make(draw)
        found.setdefault(one.text.lower(), one)
    return list(found.values())


FILES = {
    "questions": questions,
    "questions_about_new_names": questions_about_new_names,
    "reviews": reviews,
    "reviews_in_new_words": reviews_in_new_words,
    "texts": texts,
}
"""Name of a file of FOLDER → what it holds."""


def write() -> None:
    """Makes all files anew."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in FILES.items():
        _save(make(), FOLDER / f"{name}.jsonl")


def load(name: str) -> list[dict[str, Any]]:
    """One dict for each line of a file of FILES."""
    path = FOLDER / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _save(examples: Iterable[Any], path: Path) -> None:
    lines = (json.dumps(asdict(one), ensure_ascii=False) for one in examples)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")

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
    """Examples with phrasings, sentences and names that are not in the training data."""
    return _different(lambda draw: question(draw, OTHERS), NUM_QUESTIONS)


def questions_about_new_names() -> list[Question]:
    """Examples with new names, in phrasings and sentences of the training data."""
    return _different(lambda draw: question(draw, OTHERS), NUM_QUESTIONS, _KnownPhrasings(SEED, True))


class _KnownPhrasings(Draw):
    def phrase(self, split: Split[str], **slots: object) -> str:
        return self.any(split.seen).format(**slots)


def reviews() -> list[Review]:
    """Examples with new sentences, in words of the training data."""
    return _different(review, NUM_REVIEWS, Draw(SEED, True, known_words=True))


def reviews_in_new_words() -> list[Review]:
    """Examples with new sentences, aspects and opinions."""
    return _different(review, NUM_REVIEWS)


def texts() -> list[Text]:
    """The same for topics."""
    return _different(topic_text, NUM_TEXTS)


def _different(make: Callable[[Draw], Any], count: int, draw: Draw | None = None) -> list[Any]:
    """`count` examples with distinct texts."""
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

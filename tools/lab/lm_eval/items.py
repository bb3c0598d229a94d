"""The items that lm-eval reads: questions with three answers, and sentences without their last word."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Item = dict[str, Any]
FACTS: dict[str, str] = yaml.safe_load(Path(__file__).with_name("facts.yaml").read_text(encoding="utf-8"))
QUESTIONS = {
    "capitals": "The capital of {} is",
    "opposites": "The opposite of {} is",
    "young": "The young of a {} is called a",
    "symbols": "The chemical symbol of {} is",
    "next": "After {} comes",
}
"""Facts → the question; wrong answers are those to other questions."""


def pairs(name: str) -> list[tuple[str, str]]:
    found = [pair.split() for pair in FACTS[name].split(",")]
    return [(one.replace("_", " "), other.replace("_", " ")) for one, other in found]


def choices() -> list[Item]:
    """{"question", "answers", "right"}: three answers, and the place of the right one; always the same."""
    draw = random.Random(0)
    items = []
    for question, right, wrong in [*_facts(), *_words(), *_sums()]:
        answers = [right, *draw.sample(wrong, 2)]
        draw.shuffle(answers)
        items.append({"question": question, "answers": answers, "right": answers.index(right)})
    return items


def cloze() -> list[Item]:
    """{"text", "word"}: a sentence without its last word, and that word."""
    parted = [line.rsplit(" ", 1) for line in FACTS["sentences"].splitlines()]
    return [{"text": text, "word": word} for text, word in parted]


def write(folder: Path, limit: int | None = None) -> None:
    """Write choices.jsonl and cloze.jsonl; with `limit`, about as many items of each, from all over it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, items in (("choices", choices()), ("cloze", cloze())):
        some = items if limit is None else items[:: max(1, len(items) // limit)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in some))


def _facts() -> Iterator[tuple[str, str, list[str]]]:
    """(question, right answer, wrong ones)."""
    for name, question in QUESTIONS.items():
        for word, right in pairs(name):
            others = [other for _, other in pairs(name) if other not in (word, right)]
            yield question.format(word), right, others
    kinds = {kind for _, kind in pairs("kinds")}
    for word, right in pairs("kinds"):
        yield f"{word.capitalize()} is a kind of", right, sorted(kinds - {right})


def _words() -> Iterator[tuple[str, str, list[str]]]:
    for word, right in pairs("past"):
        yield f"Every day they {word}, and yesterday they", right, [f"{word}ed", f"{right}ed"]
    for word, right in pairs("plurals"):
        yield f"One {word}, two", right, [f"{word}en", f"{word}ses"]


def _sums() -> Iterator[tuple[str, str, list[str]]]:
    numbers = FACTS["numbers"].split()
    for a in range(2, 11):
        for b in range(a, min(a + 8, 20 - a)):
            yield (
                f"{numbers[a]} plus {numbers[b]} equals",
                numbers[a + b],
                [numbers[a + b - 1], numbers[a + b + 1]],
            )

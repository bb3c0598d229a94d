"""The project's own questions: those of tools/retrieval, and headings of docs/ with the text below them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipelines.retrieval.cutting import Cutting, cut
from pipelines.retrieval.source_files import documents_of
from tools.retrieval.__main__ import QUESTIONS

DOCS = Path(__file__).parents[3] / "docs"
LEAST_CHARS, PASSAGE_CHARS = 80, 400
"""Characters of a section's passage: to rank long ones again takes most of the time."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Passages by their names; questions, and the names of the passages that answer each."""

    passages: dict[str, str]
    questions: dict[str, set[str]]


def read_questions(num_sections: int, num_questions: int) -> QuestionSet:
    """The 24 questions with their passages, and sections of docs/: a heading asks for its first passage.

    All passages are searched, for the first `num_questions`: to rank their hits again takes the time.
    """
    passages: dict[str, str] = {}
    questions: dict[str, set[str]] = {}
    pairs = [(pair["question"], pair["passage"]) for pair in yaml.safe_load(QUESTIONS.read_text())]
    sections = list(_sections())
    for question, passage in [*pairs, *random.Random(0).sample(sections, min(num_sections, len(sections)))]:
        name = f"p{len(passages)}"
        passages[name] = passage
        questions.setdefault(question, set()).add(name)
    return QuestionSet(passages, dict(list(questions.items())[:num_questions]))


def _sections() -> Iterator[tuple[str, str]]:
    """(heading, what stands below it), where that is prose."""
    for document in documents_of(DOCS):
        if document.name.endswith(".md"):
            for passage in cut(document.read(), Cutting(PASSAGE_CHARS)):
                title, _, text = passage.text.partition("\n")
                if title.startswith("#") and len(text.strip()) >= LEAST_CHARS:
                    yield title.strip("# "), text.strip()

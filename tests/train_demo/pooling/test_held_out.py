"""The committed held-out examples are the corpus's own, and no training text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tools.train_demo.pooling import held_out
from tools.train_demo.pooling.corpus.facts import question
from tools.train_demo.pooling.corpus.reviews import review
from tools.train_demo.pooling.corpus.topics import topic_text
from tools.train_demo.split import Draw

MAKERS = {
    "questions": lambda draw: question(draw, 1),
    "questions_about_new_names": lambda draw: question(draw, 1),
    "reviews": review,
    "reviews_in_new_words": review,
    "texts": topic_text,
}


@pytest.mark.parametrize("name", list(held_out.FILES))
def test_committed_examples_are_the_ones_the_corpus_makes(name) -> None:  # type: ignore[no-untyped-def]
    made = [asdict(one) for one in held_out.FILES[name]()]
    kept = held_out.load(name)
    assert [one | {"others": tuple(one["others"])} if "others" in one else one for one in kept] == made


@pytest.mark.parametrize("name", list(held_out.FILES))
def test_no_example_is_trained_on(name) -> None:  # type: ignore[no-untyped-def]
    draw = Draw(1)
    trained = {MAKERS[name](draw).text.lower() for _ in range(5000)}
    kept = [one for one in held_out.load(name) if not is_everyday(name, one)]
    assert kept
    assert not trained & {one["text"].lower() for one in kept}


def is_everyday(name: str, one: dict[str, Any]) -> bool:
    """Whether it is a question without a name, in trained phrasings."""
    return name == "questions_about_new_names" and " " not in one["meaning"]

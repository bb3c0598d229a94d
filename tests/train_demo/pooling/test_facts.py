"""Questions and passages: the same for a seed, told in whole sentences, apart from the held-out ones."""

from __future__ import annotations

import re

import pytest

from tools.train_demo.pooling.corpus.answers import ANSWERS
from tools.train_demo.pooling.corpus.facts import RELATIONS, Question, question
from tools.train_demo.pooling.corpus.names import is_held_out, thing
from tools.train_demo.pooling.corpus.surface import with_articles
from tools.train_demo.split import Draw

SAMPLE_SIZE = 1500


def sample(seed: int, held_out: bool = False, size: int = SAMPLE_SIZE) -> list[Question]:
    draw = Draw(seed, held_out)
    return [question(draw, 4) for _ in range(size)]


def test_same_seed_gives_the_same_questions() -> None:
    assert sample(3, size=200) == sample(3, size=200)
    assert sample(3, size=200) != sample(4, size=200)


def test_nothing_is_left_to_fill_in() -> None:
    for one in sample(5):
        for text in (one.text, one.answer, *one.others):
            assert not re.search(r"[{}]|  |\ba [aeiou]", text), text


def test_an_answer_is_never_among_the_others() -> None:
    for one in sample(6):
        assert len(one.others) == 4
        assert one.answer not in one.others


def test_some_of_the_others_are_about_the_same_thing() -> None:
    draw = Draw(7)
    named = [one for one in (question(draw, 4) for _ in range(300)) if one.meaning.partition(" ")[2]]
    about = [one.meaning.partition(" ")[2].lower() for one in named]
    alike = sum(
        any(name in other.lower() for other in one.others) for one, name in zip(named, about, strict=True)
    )
    assert alike > 0.8 * len(named)


@pytest.mark.parametrize("relation", [*RELATIONS, *ANSWERS], ids=lambda relation: relation.name)
def test_each_relation_holds_phrasings_out(relation) -> None:  # type: ignore[no-untyped-def]
    assert len(relation.questions.seen) >= 2
    assert relation.questions.unseen
    assert relation.sentences.unseen
    assert not set(relation.questions.seen) & set(relation.questions.unseen)
    assert not set(relation.sentences.seen) & set(relation.sentences.unseen)


def test_names_of_training_are_not_held_out() -> None:
    for held_out in (False, True):
        draw = Draw(8, held_out)
        names = [thing(draw, kind).name for kind in ("town", "person", "film", "medicine") for _ in range(50)]
        assert {is_held_out(name) for name in names} == {held_out}


def test_held_out_questions_are_asked_in_no_trained_words() -> None:
    seen = {one.text.lower().rstrip("?") for one in sample(1)}
    held = {one.text.lower().rstrip("?") for one in sample(1, held_out=True, size=300)}
    assert not seen & held


def test_articles_fit_what_follows() -> None:
    assert with_articles("A engineer and a old dog had a hat.") == "An engineer and an old dog had a hat."

"""Trained phrasings are reworded, never into one that is held out."""

from __future__ import annotations

import random

import pytest

from tools.train_demo.rewording import reworded
from tools.train_demo.split import Draw, Split


def all_of(phrasing: str, *unseen: str) -> set[str]:
    source = random.Random(1)
    return {reworded(phrasing, unseen, source) for _ in range(300)}


def test_a_request_may_begin_politely() -> None:
    assert {"Say {word}.", "Please say {word}.", "Could you say {word}?"} <= all_of("Say {word}.")


def test_a_text_may_stand_before_the_task() -> None:
    ways = all_of("Write {keys} as JSON: {text}")
    assert {"{text} Write {keys} as JSON.", "Can you write {keys} as JSON: {text}"} <= ways
    assert all(way.count("{text}") == way.count("{keys}") == 1 for way in ways)


@pytest.mark.parametrize("phrasing", ["What is {a}?", "{text} Return it.", "hello", "Say"])
def test_other_forms_stay(phrasing: str) -> None:
    assert all_of(phrasing) == {phrasing}


def test_a_held_out_phrasing_is_never_the_result() -> None:
    assert "Please say: {word}" not in all_of("Say: {word}", "please say {word}!")


def test_only_training_rewords() -> None:
    split = Split(("Say {word}.",), ("Tell {word}.",))
    assert {Draw(seed, held_out=True, rewords=True).phrase(split, word="a") for seed in range(50)} == {
        "Tell a."
    }
    assert len({Draw(seed, rewords=True).phrase(split, word="a") for seed in range(50)}) > 5

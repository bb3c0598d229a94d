"""The committed adapters as they are served: right often enough, where the model itself is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.train_demo.adapters.lessons import LESSONS
from tools.train_demo.generation import HOME, NAME, Exported

FLOORS = {
    "sentences": 0.8,
    "sentences of a second turn": 0.7,
    "answers in sentences": 0.75,
    "JSON, copies and calls": 0.8,
}
SOME = 60
"""Questions that are asked of each part, evenly spread."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    with Exported(HOME / "model", Path(tmp_path_factory.mktemp("adapters"))) as running:
        yield running


@pytest.mark.parametrize("name", LESSONS)
def test_an_adapter_is_right_often_enough(exported: Exported, name: str) -> None:
    for what, questions in LESSONS[name].held_out().items():
        some = questions[:: max(1, len(questions) // SOME)]
        replies = exported.ask(some, name)
        num_right = sum(map(LESSONS[name].is_right, some, replies))
        assert num_right >= FLOORS[what] * len(some), what


def test_the_model_itself_does_neither(exported: Exported) -> None:
    french = LESSONS["french"].held_out()["sentences"][:20]
    assert not any(map(LESSONS["french"].is_right, french, exported.ask(french, NAME)))
    spoken = LESSONS["pirate"].held_out()["answers in sentences"][::20]
    assert not any(map(LESSONS["pirate"].is_right, spoken, exported.ask(spoken, NAME)))

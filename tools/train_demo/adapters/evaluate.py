"""Asks served adapters their held-out questions, and the model itself the same ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..conversation import Conversation
from ..generation import NAME as BASE
from ..generation import Exported
from .lessons import LESSONS


@dataclass(frozen=True)
class Figure:
    """Right replies of an adapter and of the model itself; `wrong` holds (question, reply) of the adapter."""

    what: str
    num_right: int
    num_right_base: int
    num_asked: int
    wrong: list[tuple[str, str]]


def measure(names: Iterable[str], model: Path, scratch: Path, adapters: Path) -> dict[str, list[Figure]]:
    """The figures of each adapter."""
    with Exported(model, scratch, adapters) as exported:
        return {
            name: [_figure(exported, name, *each) for each in LESSONS[name].held_out().items()]
            for name in names
        }


def _figure(exported: Exported, name: str, what: str, questions: list[Conversation]) -> Figure:
    def asked(model: str) -> tuple[int, list[tuple[str, str]]]:
        """How many replies are right, and the others with their questions."""
        pairs = list(zip(questions, exported.ask(questions, model), strict=True))
        wrong = [pair for pair in pairs if not LESSONS[name].is_right(*pair)]
        return len(pairs) - len(wrong), [(each.messages[-2]["content"], reply) for each, reply in wrong]

    num_right, wrong = asked(name)
    return Figure(what, num_right, asked(BASE)[0], len(questions), wrong)

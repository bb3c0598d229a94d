"""What each adapter learns from, and how it is asked: the table of the adapters of the demo model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..conversation import Conversation
from ..evaluate import is_right
from . import french, pirate

HeldOut = dict[str, list[Conversation]]
"""What is asked → questions that training never has."""


@dataclass(frozen=True)
class Lesson:
    """`groups(seed)` gives conversations without end; `targets` are products, as down_proj.

    A step has about `batch_tokens` tokens, and `peak_rate` is the largest learning rate.
    """

    groups: Callable[[int], Iterator[list[Conversation]]]
    held_out: Callable[[], HeldOut]
    steps: int
    is_right: Callable[[Conversation, str], bool] = is_right
    targets: tuple[str, ...] = ("down_proj",)
    rank: int = 24
    peak_rate: float = 1.5e-2
    batch_tokens: int = 1024
    seed: int = 1


LESSONS = {
    "french": Lesson(french.groups, french.held_out, 1400),
    "pirate": Lesson(pirate.groups, pirate.held_out, 700, pirate.is_right, peak_rate=8e-3),
}

"""Which words of a text two readings of growing sound agree on: these are sent, and stay as they are.

The rule is that of LocalAgreement (Liu et al., 2020; Macháček et al., 2023).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.nodes.speech.words import WITHOUT_SPACES

WORD = re.compile(r"\s*\S+")
CHARACTER = re.compile(r"\s*\S")
NOT_LETTERS = re.compile(r"\W+")


def words(text: str, language: str | None) -> list[str]:
    """The words of a text, each with the space before it; in languages without spaces its characters."""
    return (CHARACTER if language in WITHOUT_SPACES else WORD).findall(text)


def num_agreed(before: Sequence[str], now: Sequence[str], is_settled: bool) -> int:
    """How many words of the reading `now` are in the one before it too, from their beginning on.

    Case and punctuation do not count.  The last word may be cut off by the end of the sound, and its
    punctuation too; it counts where `is_settled`, after a pause.
    """
    num = 0
    while num < min(len(before), len(now)) and _plain(before[num]) == _plain(now[num]):
        num += 1
    return num if is_settled else min(num, max(len(now) - 1, 0))


def _plain(word: str) -> str:
    return NOT_LETTERS.sub("", word).casefold() or word.strip()

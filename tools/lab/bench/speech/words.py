"""Word errors: how many words of a text another one has wrong, lacks or has in addition."""

from __future__ import annotations

import re
from collections.abc import Sequence

NO_WORD = re.compile(r"[^\w' ]+")


def words_of(text: str) -> list[str]:
    """Words in small letters, without punctuation."""
    return NO_WORD.sub(" ", text.lower().replace("’", "'")).split()


def count_errors(wanted: Sequence[str], found: Sequence[str]) -> int:
    """The least number of words to replace, insert or delete."""
    row = list(range(len(found) + 1))
    for i, word in enumerate(wanted, start=1):
        left, row[0] = row[0], i
        for j, other in enumerate(found, start=1):
            left, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, left + (word != other))
    return row[-1]

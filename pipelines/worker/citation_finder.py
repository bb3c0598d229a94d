"""Finds the passages that a reply names by their numbers in brackets, while it is written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.values.reply_values import Citation
from pipelines.values.search_values import Hit

MARK = re.compile(r"\[\d{1,3}(?:\s*[,;]\s*\d{1,3})*\]")
"""`[2]`, `[1, 3]`."""
LONGEST = 32
"""Characters of a mark that may have begun before a piece."""


class CitationFinder:
    """The citations of one choice; numbers that are of no passage are plain text."""

    def __init__(self, passages: Sequence[Hit]) -> None:
        self._passages = passages
        self._end = ""  # of the text before: where a mark may have begun
        self._length = 0

    def push(self, text: str) -> list[Citation]:
        """The citations whose mark ends in the next piece of the text."""
        if "]" not in text:
            self._take(text)
            return []
        window, before = self._end + text, self._length - len(self._end)
        marks = [mark for mark in MARK.finditer(window) if mark.end() > len(self._end)]
        self._take(text)
        return [
            Citation(number, before + mark.start(), before + mark.end(), self._passages[number - 1])
            for mark in marks
            for number in map(int, re.findall(r"\d+", mark[0]))
            if 1 <= number <= len(self._passages)
        ]

    def _take(self, text: str) -> None:
        self._length += len(text)
        self._end = (self._end + text)[-LONGEST:]

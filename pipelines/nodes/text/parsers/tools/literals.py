"""Reads values in text by descent: the common part of the formats that are neither JSON nor tags."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from pipelines.nodes.text.parsers.tools.json_values import DEEPEST

Item = TypeVar("Item")


class Literals:
    """A position in a text; every function that reads raises ValueError where the text is something else."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at
        self._depth = 0

    def takes(self, marker: str) -> bool:
        """Whether the marker is next, after white space; it is read then."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        found = self.text.startswith(marker, self.at)
        self.at += len(marker) if found else 0
        return found

    def needs(self, marker: str) -> None:
        if not self.takes(marker):
            raise ValueError(f"no {marker}")

    def matches(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The pattern where it is next, after white space; it is read then."""
        self.takes("")
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def until(self, marker: str) -> str:
        """The text before the marker, which is read too."""
        end = self.text.index(marker, self.at)
        text, self.at = self.text[self.at : end], end + len(marker)
        return text

    def items(self, close: str, item: Callable[[], Item]) -> list[Item]:
        """Items up to a closing bracket, with commas between them and perhaps after the last."""
        read: list[Item] = []
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError("too deep")
        while not self.takes(close):
            if read:
                self.needs(",")
                if self.takes(close):
                    break
            read.append(item())
        self._depth -= 1
        return read

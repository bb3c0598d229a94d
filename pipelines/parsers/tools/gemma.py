"""Calls as Gemma writes them: `call:f{city:<quote>Paris<quote>,days:[1,2]}`, with a mark for each quote.

Knows nothing of what stands around them.  Keys are bare; only what stands in quotes is a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pipelines.parsers.tools.calls import Made, Read
from pipelines.parsers.tools.declared import Declared, read_json

DEEPEST = 100
"""How deep values may stand in each other."""


def gemma(quote: str) -> Read:
    """A reader for calls whose strings stand between two `quote`s."""

    def read(body: str, declared: Declared) -> list[Made] | None:
        head = re.match(r"\s*call:([^{\s]+)", body)
        if head is None:
            return None
        try:
            arguments = _Reader(body, head.end(), quote).whole()
        except (ValueError, RecursionError):
            return None
        if not isinstance(arguments, dict):
            return None
        name = head[1]
        typed = {
            key: declared.value(name, key, value)
            if isinstance(value, str) and declared.schema(name, key)
            else value
            for key, value in arguments.items()
        }
        return [Made(name, typed)]

    return read


class _Reader:
    """Reads one value by descent; ValueError where the text is none."""

    def __init__(self, text: str, at: int, quote: str) -> None:
        self.text = text
        self.at = at
        self.quote = quote
        self.depth = 0

    def whole(self) -> Any:
        value = self.value()
        if self.text[self.at :].strip():
            raise ValueError("text after the value")
        return value

    def value(self) -> Any:
        if self.takes(self.quote):
            return self.until(self.quote)
        if self.takes("{"):
            return dict(self.items("}", self.pair))
        if self.takes("["):
            return self.items("]", self.value)
        plain = self.plain(",]}")
        return read_json(plain)

    def pair(self) -> tuple[str, Any]:
        key = self.until(self.quote) if self.takes(self.quote) else self.plain(":,]}")
        if not key or not self.takes(":"):
            raise ValueError("no key")
        return key, self.value()

    def items(self, close: str, item: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError("too deep")
        while not self.takes(close):
            if found and not self.takes(","):
                raise ValueError("no comma")
            found.append(item())
        self.depth -= 1
        return found

    def takes(self, mark: str) -> bool:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        found = self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def until(self, mark: str) -> str:
        end = self.text.index(mark, self.at)
        text, self.at = self.text[self.at : end], end + len(mark)
        return text

    def plain(self, stops: str) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in stops:
            self.at += 1
        return self.text[start : self.at].strip()

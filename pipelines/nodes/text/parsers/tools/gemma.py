"""Reads calls in Gemma's format: `call:f{city:<quote>Paris<quote>,days:[1,2]}`, with a marker for each quote.

Keys are bare; only quoted text is a string.  A call is given out when its block is complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from pipelines.nodes.text.parsers.tags import TagScanner
from pipelines.nodes.text.parsers.tools.calls import CallSink, MakeReader
from pipelines.nodes.text.parsers.tools.declared import Declared, read_json

DEEPEST = 100
"""Most levels of nested values."""


def gemma(quote: str) -> MakeReader:
    """A reader for calls whose strings are between two `quote`s."""
    return partial(GemmaReader, quote)


class GemmaReader:
    """The reader of one call."""

    def __init__(self, quote: str, close: str, calls: CallSink, declared: Declared) -> None:
        self._quote = quote
        self._calls = calls
        self._declared = declared
        self._scanner = TagScanner(close)
        self._left: list[str] = []

    def push(self, text: str) -> str | None:
        for before, tag in self._scanner.push(text):
            self._left.append(before)
            if tag:
                self._left += [] if self._call() else [tag]
                rest, self._scanner.held = self._scanner.held, ""
                return rest
        return None

    def finish(self) -> None:
        """A call can be complete without the closing marker."""
        if not self._call():
            self._left.append(self._scanner.held)

    def left(self) -> str:
        return "".join(self._left)

    def _call(self) -> bool:
        """Whether the block is a call."""
        body = self.left()
        head = re.match(r"\s*call:([^{\s]+)", body)
        try:
            arguments = _Values(body, head.end(), self._quote).whole() if head else None
        except (ValueError, RecursionError):
            return False
        if head is None or not isinstance(arguments, dict):
            return False
        typed = {key: self._typed(head[1], key, value) for key, value in arguments.items()}
        self._calls.begin(head[1])
        self._calls.more(json.dumps(typed, ensure_ascii=False))
        self._left.clear()
        return True

    def _typed(self, name: str, key: str, value: Any) -> Any:
        """A string, converted by the tool's declaration."""
        known = isinstance(value, str) and self._declared.schema(name, key)
        return self._declared.value(name, key, value) if known else value


class _Values:
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

    def takes(self, marker: str) -> bool:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        found = self.text.startswith(marker, self.at)
        self.at += len(marker) if found else 0
        return found

    def until(self, marker: str) -> str:
        end = self.text.index(marker, self.at)
        text, self.at = self.text[self.at : end], end + len(marker)
        return text

    def plain(self, stops: str) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in stops:
            self.at += 1
        return self.text[start : self.at].strip()

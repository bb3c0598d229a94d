"""Reads calls in Gemma's format: `call:f{city:<quote>Paris<quote>,days:[1,2]}`, with a marker for each quote.

Models also write JSON's strings, Python's words and texts without quotes.  A call is given out when its block
is complete.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from pipelines.nodes.text.markup.tags import TagScanner
from pipelines.nodes.text.parsers.tools.calls import CallSink, MakeReader
from pipelines.nodes.text.parsers.tools.declared import Declared
from pipelines.nodes.text.parsers.tools.json_values import as_json
from pipelines.nodes.text.parsers.tools.literals import Literals
from pipelines.nodes.text.parsers.tools.mended_json import mended

HEAD = re.compile(r"\s*call:([^{\s]+)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'', re.DOTALL)
BARE_KEY = re.compile(r"[^:,\]}]*+")
BARE = re.compile(r"[^,\]}]*+")
MAX_TRIES = 16
"""Markers in what may be a quoted text at which a call is looked for; each one reads the block again."""


def gemma(quote: str, open: str) -> MakeReader:
    """A reader for calls whose strings are between two `quote`s; `open` begins the next call."""
    return partial(GemmaReader, quote, open)


class GemmaReader:
    """The reader of one call."""

    def __init__(self, quote: str, open: str, close: str, calls: CallSink, declared: Declared) -> None:
        self.closed = False
        self._quote, self._open = quote, open
        self._calls = calls
        self._declared = declared
        self._scanner = TagScanner(quote, close, open)
        self._quoted = False
        self._num_tries = 0
        self._left: list[str] = []

    def push(self, text: str) -> str | None:
        for before, tag in self._scanner.push(text):
            self._left.append(before)
            if not tag:
                continue
            self._quoted ^= tag == self._quote
            called = tag != self._quote and self._ends_call()
            if tag != self._quote and (called or not self._quoted):
                rest, self._scanner.held = self._scanner.held, ""
                return self._end(tag, called) + rest
            self._left.append(tag)
        return None

    def _ends_call(self) -> bool:
        """Whether the block is a call at a marker, which may be in a text."""
        self._num_tries += self._quoted
        return not (self._quoted and self._num_tries > MAX_TRIES) and self._call()

    def finish(self) -> None:
        """A call can be complete without the closing marker."""
        self._left.append(self._scanner.held)
        self._call()

    def left(self) -> str:
        return "".join(self._left)

    def _end(self, tag: str, called: bool) -> str:
        """The block ended at a marker.  Returns it where it begins the next block."""
        if tag == self._open:
            return tag
        self.closed = True
        if not called:
            self._left.append(tag)
        return ""

    def _call(self) -> bool:
        """Whether the block begins with a call; what follows that is left."""
        body = self.left()
        head = HEAD.match(body)
        try:
            values = GemmaValues(body, head.end(), self._quote) if head else None
            arguments = values.value() if values else None
        except ValueError:
            return False
        if head is None or values is None or not isinstance(arguments, dict):
            return False
        typed = {key: self._typed(head[1], key, value) for key, value in arguments.items()}
        self._calls.begin(head[1])
        self._calls.more(as_json(typed))
        rest = body[values.at :]
        self._left = [rest] if rest.strip() else []
        return True

    def _typed(self, name: str, key: str, value: Any) -> Any:
        """A string, converted by the tool's declaration."""
        known = isinstance(value, str) and self._declared.schema(name, key)
        return self._declared.value(name, key, value) if known else value


class GemmaValues(Literals):
    """Values of Gemma's format."""

    def __init__(self, text: str, at: int, quote: str) -> None:
        super().__init__(text, at)
        self._quote = quote
        self._next_quote = (-1, False)  # where it is, and whether it closes a text

    def value(self) -> Any:
        if self.takes(self._quote):
            return self.until(self._quote)
        if self.takes("{"):
            return dict(self.items("}", self._pair))
        if self.takes("["):
            return self.items("]", self.value)
        if string := self._string():
            return mended(string)
        return self._bare()

    def _pair(self) -> tuple[str, Any]:
        key = self._key()
        self.needs(":")
        if not key:
            raise ValueError("no key")
        return key, self.value()

    def _key(self) -> str:
        if self.takes(self._quote):
            return self.until(self._quote)
        string = self._string()
        found = None if string else self.matches(BARE_KEY)
        return found[0].strip() if found else str(mended(string))

    def _string(self) -> str:
        """A string of JSON or Python that is a whole value or key, "" where there is none."""
        start = self.at
        found = self.matches(STRING)
        self.takes("")
        if found and self.text[self.at : self.at + 1] in ",]}:":
            return found[0]
        self.at = start
        return ""

    def _bare(self) -> Any:
        """A number or a literal, or else a text without quotes, or of which the first one was left out."""
        start = self.at
        quoted = self._closed_text()
        if quoted is not None:
            return quoted
        self.at = start
        match = self.matches(BARE)
        if match is None or not (text := match[0].strip()):
            raise ValueError("no value")
        try:
            return mended(text)
        except ValueError:
            return text

    def _closed_text(self) -> str | None:
        """The text up to a quote that closes it, None where the next quote opens another one."""
        if self._next_quote[0] < self.at:
            self._next_quote = self._find_quote()
        end, closes = self._next_quote
        if not closes:
            return None
        text, self.at = self.text[self.at : end].strip(), end + len(self._quote)
        return text

    def _find_quote(self) -> tuple[int, bool]:
        """The next quote, or the end of the text where there is none."""
        end = self.text.find(self._quote, self.at)
        if end < 0:
            return len(self.text), False
        before = self.text[self.at : end].rstrip()
        return end, before[-1:] not in ("", *":[,{")

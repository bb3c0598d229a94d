"""Reads calls whose parameters are in tags: a name, then pairs of a key and a value in plain text.

Values get the types that the tool declares.  A declared string is given out as it arrives, another parameter
when it is complete; where the text ends inside a call, its arguments stay open.
"""

from __future__ import annotations

import json
import re
from functools import partial

from pipelines.nodes.text.parsers.tags import TagScanner
from pipelines.nodes.text.parsers.tools.calls import CallSink, MakeReader
from pipelines.nodes.text.parsers.tools.declared import Declared


def tagged(name: str, parameter: str, end: str) -> MakeReader:
    """`name` has the group name, `parameter` the group key; a value follows, and the marker `end`."""
    return partial(TagReader, re.compile(name, re.DOTALL), re.compile(parameter, re.DOTALL), end)


class TagReader:
    """The reader of one call."""

    def __init__(
        self,
        head: re.Pattern[str],
        parameter: re.Pattern[str],
        end: str,
        close: str,
        calls: CallSink,
        declared: Declared,
    ) -> None:
        self._head, self._parameter, self._end = head, parameter, end
        self._scanner = TagScanner(end, close)
        self._calls = calls
        self._declared = declared
        self._name = ""
        self._between = "{"  # the text before the next parameter
        self._left = ""  # since the beginning or the last parameter
        self._text: Text | None = None  # the value that is being given out

    def push(self, text: str) -> str | None:
        for before, tag in self._scanner.push(text):
            self._take(before, may_begin=">" in before)
            if not tag or (tag == self._end and self._take_end()):
                continue
            if tag == self._end or not self._close():
                self._left += tag
            rest, self._scanner.held = self._scanner.held, ""
            return rest
        return None

    def finish(self) -> None:
        if self._text is not None:
            return
        self._left += self._scanner.held
        if self._name and any(tag.startswith(self._left.strip()) for tag in self._scanner.tags):
            self._left = ""

    def left(self) -> str:
        return self._left

    def _take(self, text: str, may_begin: bool) -> None:
        if self._text is None:
            self._left += text
            text = self._begin_text() if may_begin else ""
        if self._text is not None:
            self._calls.more(self._text.more(text))

    def _begin_text(self) -> str:
        """The value so far, where the value of a declared string starts."""
        name, key, at = self._opened()
        if not key or not self._declared.is_text(name, key):
            return ""
        value = self._left[at:]
        self._begin_value(name, key)
        self._text = Text()
        self._calls.more('"')
        return value

    def _take_end(self) -> bool:
        """Whether the marker ends a parameter and nothing else came before it."""
        if self._text is not None:
            self._calls.more('"')
            self._text = None
            return True
        name, key, at = self._opened()
        if not key:
            return False
        value = self._declared.value(name, key, _unwrapped(self._left[at:]))
        self._begin_value(name, key)
        self._calls.more(json.dumps(value, ensure_ascii=False))
        return True

    def _close(self) -> bool:
        """The call ended.  Returns whether nothing is left after its last parameter."""
        if self._text is not None:
            return False
        name, at = self._named()
        blank = not self._left[at:].strip()
        if name and blank:
            self._begin(name)
        if self._name:
            self._calls.more("{}" if self._between == "{" else "}")
        return bool(name) and blank

    def _named(self) -> tuple[str, int]:
        """The call's name and where it ends, "" where there is none."""
        if self._name:
            return self._name, 0
        found = self._head.match(self._left)
        return (found["name"], found.end()) if found else ("", 0)

    def _opened(self) -> tuple[str, str, int]:
        """The call's name, and the key and the start of the value of a parameter; "" for what is missing."""
        name, at = self._named()
        found = self._parameter.match(self._left, at) if name else None
        return (name, found["key"].strip(), found.end()) if found else (name, "", 0)

    def _begin_value(self, name: str, key: str) -> None:
        self._begin(name)
        self._calls.more(f"{self._between}{json.dumps(key, ensure_ascii=False)}: ")
        self._between = ", "

    def _begin(self, name: str) -> None:
        if not self._name:
            self._calls.begin(name)
        self._name, self._left = name, ""


class Text:
    """Text in pieces → the inside of a JSON string."""

    def __init__(self) -> None:
        self._began = False
        self._held = ""  # a line break that may be the template's

    def more(self, text: str) -> str:
        if not text:
            return ""
        text = self._held + (text if self._began else text.removeprefix("\n"))
        self._began = True
        shown = text.removesuffix("\n")
        self._held = text[len(shown) :]
        return json.dumps(shown, ensure_ascii=False)[1:-1]


def _unwrapped(value: str) -> str:
    """The value without the line break that a template may put on each side."""
    return value.removeprefix("\n").removesuffix("\n")

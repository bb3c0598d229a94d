"""Reads calls whose parameters are in tags: a name, then pairs of a key and a value in plain text.

Values get the types that the tool declares.  A declared string is given out as it arrives, another parameter
when it is complete.  A marker in a value ends it only if markup follows: models leave closing markers out,
and write about markers in texts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipelines.nodes.text.markup.tags import TagScanner
from pipelines.nodes.text.parsers.tools.calls import CallSink, MakeReader
from pipelines.nodes.text.parsers.tools.declared import Declared
from pipelines.nodes.text.parsers.tools.json_values import as_json

MAX_HEAD_CHARS = 1_000
"""Most characters of a name or a key, with the white space and the markers around it."""


@dataclass(frozen=True)
class TagForm:
    """The format of one call.

    `name` is a pattern with the group name.  `start` begins a parameter, of which `parameter` is the pattern
    up to its value, with the key in the first group that matched; `end` follows the value.  `after` are
    markers that can follow a call, `opens` those that begin another one.  With `inline` a parameter that was
    left open ends before the next one, otherwise only if that begins a line.
    """

    name: re.Pattern[str]
    start: str
    parameter: re.Pattern[str]
    end: str
    after: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    inline: bool = False


def tagged(
    name: str,
    start: str,
    parameter: str,
    end: str,
    after: str = "",
    opens: tuple[str, ...] = (),
    *,
    inline: bool = False,
) -> MakeReader:
    """A reader for calls of a format; `parameter` is the pattern after `start`."""
    patterns = re.compile(name, re.DOTALL), start, re.compile(rf"\s*{re.escape(start)}{parameter}", re.DOTALL)
    return partial(TagReader, TagForm(*patterns, end, (after,) if after else (), opens, inline))


class TagReader:
    """The reader of one call."""

    def __init__(self, form: TagForm, close: str, calls: CallSink, declared: Declared) -> None:
        self.closed = False
        self._form, self._close = form, close
        self._scanner = TagScanner(form.end, close, form.start, *form.after, *form.opens)
        self._calls = calls
        self._declared = declared
        self._name = ""
        self._begun = False
        self._key = ""
        self._between = "{"  # the text before the next parameter
        self._left = ""  # since the beginning or the last parameter
        self._value: Text | Plain | None = None
        self._doubt: list[str] = []  # a marker in a value, the text after it, and so on
        self._last = ""  # the last character of the value

    def push(self, text: str) -> str | None:
        for before, tag in self._scanner.push(text):
            rest = self._take(before, tag)
            if rest is not None:
                rest, self._scanner.held = rest + self._scanner.held, ""
                return rest
        return None

    def finish(self) -> None:
        """The text ends a value: at the last marker, if nothing follows it, or else at the first."""
        if self._value is not None:
            end = self._doubt[-2:] if self._doubt and not self._doubt[-1].strip() else self._doubt
            self._end_value(len(self._doubt) - len(end))
            self._left = "".join(end[1:])
            return
        self._left += self._scanner.held
        if self._name and any(tag.startswith(self._left.strip()) for tag in self._scanner.tags):
            self._left = ""

    def left(self) -> str:
        return self._left

    def _take(self, before: str, tag: str) -> str | None:
        """The text after the block, None while it continues."""
        if self._value is not None:
            return self._in_value(before, tag)
        self._left += before
        value = self._begin_value() if ">" in before or "\n" in before else None
        if value is not None:
            return self._in_value(value, tag)
        if len(self._left) > MAX_HEAD_CHARS:
            rest, self._left = self._left[MAX_HEAD_CHARS:], self._left[:MAX_HEAD_CHARS]
            return rest + tag
        return self._mark(tag) if tag else None

    def _in_value(self, text: str, tag: str) -> str | None:
        if self._doubt:
            self._more_doubt(text)
            value = self._next_value(text)
            if value is not None:
                return self._in_value(value, tag)
        else:
            self._more(text)
        if not tag:
            return None
        if self._doubt and self._is_end(tag):
            last, blank = self._doubt[-2:]
            self._end_value(len(self._doubt) - 2)
            return self._marks(last, blank, tag)
        if tag == self._form.end and not self._doubt and self._is_read():
            self._end_value(0)
        elif tag in self._form.opens or (tag == self._form.start and not self._begins_line()):
            self._add(tag)
        else:
            self._doubt += [tag, ""]
        return None

    def _more(self, text: str) -> None:
        """More of the value."""
        assert self._value is not None
        self._last = text[-1:] or self._last
        self._calls.more(self._value.more(text))

    def _more_doubt(self, text: str) -> None:
        last = self._doubt.pop()  # in a variable alone it grows without a copy
        last += text
        self._doubt.append(last)

    def _add(self, text: str) -> None:
        if self._doubt:
            self._more_doubt(text)
        else:
            self._more(text)

    def _begins_line(self) -> bool:
        before = self._doubt[-1][-MAX_HEAD_CHARS:] if self._doubt else self._last
        return self._form.inline or before.rstrip(" \t").endswith("\n")

    def _is_read(self) -> bool:
        return isinstance(self._value, Plain) and self._value.is_read()

    def _is_end(self, tag: str) -> bool:
        """Whether the last marker in the value, followed by this one, ends it."""
        last, blank = self._doubt[-2:]
        if blank and not blank.isspace():
            return False
        if last == self._form.end:
            return tag in (self._form.start, self._close, *self._form.after)
        return tag in self._form.opens or (last == self._close and tag in self._form.after)

    def _next_value(self, text: str) -> str | None:
        """The value of the next parameter, where the last one was left open and that has begun."""
        marker, after = self._doubt[-2:]
        if marker != self._form.start or not (">" in text or "\n" in text):
            return None
        if len(after) - len(text) > MAX_HEAD_CHARS:
            return None
        if self._form.parameter.match((marker + after)[:MAX_HEAD_CHARS]) is None:
            return None
        self._end_value(len(self._doubt) - 2)
        self._left = marker + after
        return self._begin_value()

    def _end_value(self, count: int) -> None:
        """The value ends after this many entries of what was in doubt."""
        assert self._value is not None
        self._more("".join(self._doubt[:count]))
        value, self._value, self._doubt = self._value, None, []
        if isinstance(value, Plain):
            self._begin_parameter()
        self._calls.more(value.end())
        self._calls.settle()

    def _marks(self, last: str, blank: str, tag: str) -> str | None:
        rest = self._mark(last)
        if rest is not None:
            return rest + blank + tag
        self._left += blank
        return self._mark(tag)

    def _mark(self, tag: str) -> str | None:
        """A marker outside values.  Returns the text after the block, None while it continues."""
        name, at = self._named()
        whole = bool(name) and not self._left[at:].strip()
        if tag == self._form.start or (tag == self._form.end and self._name and whole):
            self._left = self._left + tag if tag == self._form.start else ""
            return None
        self.closed = tag == self._close
        if whole and tag != self._form.end:
            self._name, self._left = name, ""
            self._begin()
        elif tag == self._form.end or (self.closed and not self._name):
            self._left += tag
            return ""
        return "" if self.closed else tag

    def _named(self) -> tuple[str, int]:
        """The call's name and where it ends, "" where there is none."""
        if self._name:
            return self._name, 0
        found = self._form.name.match(self._left, 0, MAX_HEAD_CHARS)
        return (found["name"], found.end()) if found else ("", 0)

    def _begin_value(self) -> str | None:
        """The value so far, where the value of a parameter starts."""
        name, at = self._named()
        match = self._form.parameter.match(self._left, at, MAX_HEAD_CHARS) if name else None
        key = next((group.strip() for group in match.groups() if group), "") if match else ""
        if match is None or not key:
            return None
        value = self._left[match.end() :]
        self._name, self._key, self._last, self._left = name, key, "", ""
        self._value = Text() if self._declared.is_text(name, key) else Plain(self._declared, name, key)
        if isinstance(self._value, Text):
            self._begin_parameter()
        return value

    def _begin_parameter(self) -> None:
        self._begin()
        self._calls.more(f"{self._between}{as_json(self._key)}: ")
        self._between = ", "

    def _begin(self) -> None:
        if not self._begun:
            self._calls.begin(self._name)
        self._begun = True


class Text:
    """A value in pieces → a JSON string, without the line break that a template may put on each side."""

    def __init__(self) -> None:
        self._began = False
        self._held = ""  # a line break that may be the template's

    def more(self, text: str) -> str:
        if not text:
            return ""
        text = self._held + (text if self._began else text.removeprefix("\n"))
        quote = "" if self._began else '"'
        self._began = True
        shown = text.removesuffix("\n")
        self._held = text[len(shown) :]
        return quote + json.dumps(shown, ensure_ascii=False)[1:-1]

    def end(self) -> str:
        return '"' if self._began else '""'


class Plain:
    """A value of another type, which is read when it is complete."""

    def __init__(self, declared: Declared, name: str, key: str) -> None:
        self._read = partial(declared.value, name, key)
        self._text: list[str] = []

    def more(self, text: str) -> str:
        self._text.append(text)
        return ""

    def is_read(self) -> bool:
        """Whether the value is no plain text, which could hold markers."""
        return bool(self._value() != self._whole())

    def end(self) -> str:
        return as_json(self._value())

    def _value(self) -> Any:
        return self._read(self._whole())

    def _whole(self) -> str:
        """The value without the line break that a template may put on each side."""
        return "".join(self._text).removeprefix("\n").removesuffix("\n")

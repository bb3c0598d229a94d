"""Reads calls in Python syntax: `[f(a=1, b="x"), g()]`, or one call on each line.

`true`, `false` and `null` are JSON's; names may be reserved words or have dashes, and strings line breaks.  A
call is given out when the text after it shows that it is complete.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from typing import Any

from pipelines.nodes.text.parsers.tools.calls import CallSink
from pipelines.nodes.text.parsers.tools.characters import CharacterReader
from pipelines.nodes.text.parsers.tools.declared import UNREADABLE, Declared
from pipelines.nodes.text.parsers.tools.json_values import as_json
from pipelines.nodes.text.parsers.tools.literals import Literals

WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
NAME = re.compile(r"[^\W\d][\w-]*+(?:\.[^\W\d][\w-]*+)*+")
KEY = re.compile(r"([^\W\d][\w-]*+)\s*=(?!=)")
NUMBER = re.compile(r"[+-]*\s*[\d.](?:[\w.]|(?<=[eE])[+-])*+")
STRING = re.compile(
    r"([rRfFuU]{0,2})('''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")",
    re.DOTALL,
)
ESCAPED_OR_BREAK = re.compile(r"\\(.)|[\n\r\0]", re.DOTALL)
BREAKS = {"\n": "\\n", "\r": "\\r", "\0": "\\x00"}


class PythonReader(CharacterReader):
    """The reader of one block: calls in a list, or on lines of their own."""

    def __init__(self, close: str, calls: CallSink, declared: Declared) -> None:
        super().__init__(close)
        self._calls = calls
        self._begun = False
        self._list: bool | None = None  # None before the block's first character
        self._ended = False  # the list is closed
        self._depth = 0
        self._quotes = Quotes()

    def finish(self) -> None:
        """The last call can be complete without the closing marker."""
        if self._ended:
            self._left.clear()
        elif not (self._call() and self._begun):
            self._left.append(self._held)

    def _quoted(self) -> bool:
        return bool(self._quotes.open)

    def _end_at_mark(self) -> None:
        if self._ended and self._begun:
            self._left.clear()
            return
        self._call()
        if not self._begun:
            self._left.append(self._close)

    def _take(self, char: str) -> int | None:
        if self._list is None and not char.isspace():
            self._list = char == "["
            if self._list:
                self._left.append(char)
                return None
        if self._ended and not char.isspace():
            return 0
        if self._depth:
            self._inside(char)
        elif (self._list and char in ",]") or (not self._list and char == "\n"):
            return self._separator(char)
        elif not (char.isspace() or char.isidentifier() or char.isdigit() or char in ".(-"):
            return 0
        else:
            self._depth += char == "("
        if self._ended or self._left or not (char.isspace() and self._begun):
            self._left.append(char)
        return None

    def _inside(self, char: str) -> None:
        """In the brackets of a call."""
        if not self._quotes.take(char):
            self._depth += (char in "([{") - (char in ")]}")

    def _separator(self, char: str) -> int | None:
        called = self._call()
        if not (called and self._begun):
            self._left.append(char)
        if not called:
            return 1
        self._ended = char == "]"
        return 1 if self._ended and not self._close else None

    def _call(self) -> bool:
        """Whether nothing or one call came since the last separator."""
        text = self.left().strip()
        text = text if self._begun or not self._list else text.removeprefix("[")
        if not text:
            return self._begun or not self._list
        if (call := read_call(text)) is None:
            return False
        self._calls.begin(call[0])
        self._calls.more(call[1])
        self._begun = True
        self._left.clear()
        return True


class Quotes:
    """Which characters are in strings, of one quote or of three."""

    def __init__(self) -> None:
        self.open = ""
        """The quote that would end the string; "" outside."""

        self._last = ""  # the quotes that came last, one after the other
        self._escaped = False

    def take(self, char: str) -> bool:
        """Whether the character is a part of a string."""
        if self._escaped or (self.open and char == "\\"):
            self._escaped, self._last = not self._escaped, ""
            return True
        if char not in "\"'":
            self._last = ""
            return bool(self.open)
        self._last = (self._last + char)[-3:] if self._last.endswith(char) else char
        if not self.open:
            self.open, self._last = (char * 3, "") if self._last == char * 3 else (char, self._last)
        elif self._last.endswith(self.open):
            self.open, self._last = "", self._last if self._last == char * 2 else ""
        return True


def read_call(text: str) -> tuple[str, str] | None:
    """Name and arguments of one call by keywords, None where there is anything else."""
    try:
        return PythonValues(text).call()
    except UNREADABLE:
        return None


class PythonValues(Literals):
    """Calls by keywords, and the literals that JSON has a value for."""

    def call(self) -> tuple[str, str]:
        name = self.matches(NAME)
        self.needs("(")
        pairs = self.items(")", self._argument)
        if name is None or self.text[self.at :].strip():
            raise ValueError("no call")
        return name[0], as_json({key: value for each in pairs for key, value in each.items()})

    def _argument(self) -> dict[str, Any]:
        if self.takes("**"):
            value = self.value()
            if not isinstance(value, dict) or not value:
                raise ValueError("no arguments by name")
            return value
        key = self.matches(KEY)
        if key is None:
            raise ValueError("an argument without a name")
        return {key[1]: self.value()}

    def value(self) -> Any:
        if self.takes("["):
            return self.items("]", self.value)
        if self.takes("("):
            return self._tuple()
        if self.takes("{"):
            return self._braces()
        if string := self.matches(STRING):
            return self._strings(string)
        if number := self.matches(NUMBER):
            return _number(number[0])
        word = self.matches(NAME)
        if word is None or word[0] not in WORDS:
            raise ValueError("no literal")
        return WORDS[word[0]]

    def _tuple(self) -> Any:
        """A value in brackets, or several."""
        start = self.at
        items = self.items(")", self.value)
        is_one = len(items) == 1 and not self.text[start : self.at - 1].rstrip().endswith(",")
        return items[0] if is_one else items

    def _braces(self) -> Any:
        """A dict, or a set as a list."""
        start, depth = self.at, self._depth
        try:
            return dict(self.items("}", self._pair))
        except NotAPair:
            self.at, self._depth = start, depth
            return self.items("}", self.value)

    def _pair(self) -> tuple[str, Any]:
        self.takes("")
        key = None if self.text[self.at : self.at + 1] in "[({" else self.value()
        if key is None or not self.takes(":"):
            raise NotAPair
        if not isinstance(key, str):
            raise ValueError("a key that is no string")
        return key, self.value()

    def _strings(self, first: re.Match[str]) -> str:
        """Strings that follow one another are one."""
        parts: list[str] = []
        found: re.Match[str] | None = first
        while found:
            parts.append(_string(*found.groups()))
            found = self.matches(STRING)
        return "".join(parts)


class NotAPair(ValueError):
    """There is no colon after what could be a key."""


def _number(text: str) -> int | float:
    text = text.replace(" ", "")
    if re.fullmatch(r"[+-]?0\d+", text):
        return int(text)
    value = ast.literal_eval(text)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no number of JSON")
    return value


def _string(prefix: str, text: str) -> str:
    """A string by Python's rules, in which line breaks may stand as they are."""
    if "r" in prefix.lower():
        return text[3:-3] if text.startswith(("'''", '"""')) else text[1:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unknown escapes
        return str(ast.literal_eval(ESCAPED_OR_BREAK.sub(_escaped, text)))


def _escaped(found: re.Match[str]) -> str:
    """A line break or NUL as an escape; a backslash before one is a backslash."""
    if found[1] is None:
        return BREAKS[found[0]]
    return rf"\\{BREAKS[found[1]]}" if found[1] in BREAKS else found[0]

"""Reads calls in Python syntax: `[f(a=1, b="x"), g()]`, or one call on each line.

`true`, `false` and `null` are JSON's.  A call is given out when the text after it shows that it is complete.
"""

from __future__ import annotations

import ast
import json
import warnings
from typing import Any

from pipelines.nodes.text.parsers.tools.calls import CallSink
from pipelines.nodes.text.parsers.tools.characters import CharacterReader
from pipelines.nodes.text.parsers.tools.declared import UNREADABLE, Declared

WORDS = {"true": True, "false": False, "null": None}


class PythonReader(CharacterReader):
    """The reader of one block: calls in a list, or on lines of their own."""

    def __init__(self, close: str, calls: CallSink, declared: Declared) -> None:
        super().__init__(close)
        self._calls = calls
        self._begun = False
        self._list: bool | None = None  # None before the block's first character
        self._ended = False  # the list is closed
        self._depth = 0
        self._quote = ""
        self._escaped = False

    def finish(self) -> None:
        """Calls on lines can be complete without the closing marker."""
        if self._ended:
            self._left.clear()
        elif not (self._list is False and self._call()):
            self._left.append(self._held)

    def _quoted(self) -> bool:
        return bool(self._quote)

    def _end_at_mark(self) -> None:
        if self._begun and self._ended:
            self._left.clear()
        elif not (self._list is False and self._call() and self._begun):
            self._left.append(self._close)

    def _take(self, char: str) -> int | None:
        if self._list is None and not char.isspace():
            self._list = char == "["
            if self._list:
                self._left.append(char)
                return None
        if self._ended and not char.isspace():
            return 0
        if self._quote or self._depth:
            self._inside(char)
        elif (self._list and char in ",]") or (not self._list and char == "\n"):
            return self._separator(char)
        elif not (char.isspace() or char.isidentifier() or char.isdigit() or char in ".("):
            return 0
        else:
            self._depth += char == "("
        if self._ended or not (char.isspace() and self._begun and not self.left().strip()):
            self._left.append(char)
        return None

    def _inside(self, char: str) -> None:
        """In the brackets of a call."""
        if self._quote:
            self._quote = self._quote if self._escaped or char != self._quote else ""
            self._escaped = not self._escaped and char == "\\"
        elif char in "\"'":
            self._quote = char
        else:
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
        if (made := read_call(text)) is None:
            return False
        self._calls.begin(made[0])
        self._calls.more(made[1])
        self._begun = True
        self._left.clear()
        return True


def read_call(text: str) -> tuple[str, str] | None:
    """Name and arguments of one call by keywords, None where there is anything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings
            call = ast.parse(text.strip(), mode="eval").body
        return _name(call), json.dumps(_arguments(call), ensure_ascii=False, allow_nan=False)
    except UNREADABLE:
        return None


def _name(call: ast.expr) -> str:
    """Raises ValueError for anything but a call by keywords."""
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError("no call by keywords")
    name = ast.unparse(call.func)
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError("no name")
    return name


def _arguments(call: ast.expr) -> dict[str, Any]:
    assert isinstance(call, ast.Call)
    arguments = {each.arg: _value(each.value) for each in call.keywords if each.arg}
    if len(arguments) != len(call.keywords):
        raise ValueError("an argument without a name")
    return arguments


def _value(node: ast.expr) -> Any:
    """Raises ValueError for what is no literal."""
    if isinstance(node, ast.Name) and node.id in WORDS:
        return WORDS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        return {_key(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)}
    return ast.literal_eval(node)


def _key(node: ast.expr | None) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise ValueError("a key that is no string")
    return node.value

"""Reads calls in JSON: `{"name": …, "arguments": {…}}`, several of them, or a name followed by its arguments.

Arguments are passed on as the model writes them, once name and arguments are known; what is no JSON after
that is mended, or ends them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipelines.nodes.text.parsers.tools.calls import CallSink, MakeReader
from pipelines.nodes.text.parsers.tools.characters import CharacterReader
from pipelines.nodes.text.parsers.tools.declared import Declared
from pipelines.nodes.text.parsers.tools.json_text import (
    KEY_CHARS,
    Brackets,
    arguments_of,
    before_arguments,
    name_of,
    says_arguments,
    value_of,
)
from pipelines.nodes.text.parsers.tools.json_values import as_json

MAX_NAME_CHARS = 300
"""Most characters before the arguments of a call."""


@dataclass(frozen=True)
class Form:
    """The content of a block.  `name` is a pattern of the text before bare arguments, "" for none.

    It has the groups name and perhaps id, which may have the name in it: clients rewrite ids, and models copy
    them.  `objects` are calls as one object or a list of them; without `needs_arguments` an object may omit
    its arguments.  `tail` are characters that, like white space, are allowed between the value and the
    closing marker.
    """

    objects: bool = True
    needs_arguments: bool = False
    name: str = ""
    tail: str = ""


def objects(*, needs_arguments: bool = False) -> MakeReader:
    """One object or a list of them."""
    return partial(JsonReader, Form(needs_arguments=needs_arguments))


def named(name: str, *, objects: bool = False, tail: str = "") -> MakeReader:
    """A name before its arguments."""
    return partial(JsonReader, Form(objects=objects, name=name, tail=tail))


class JsonReader(CharacterReader):
    """The reader of one block.  `_meaning` handles the next character."""

    def __init__(self, form: Form, close: str, calls: CallSink, declared: Declared) -> None:
        super().__init__(close)
        self._form = form
        self._calls = calls
        self._declared = declared
        self._meaning: Callable[[str], int | None] = self._outside
        self._begun = False
        self._list = False
        self._start_of("")

    def finish(self) -> None:
        if self._begun and self._is_end():
            self._left.clear()
        elif self._meaning != self._in_arguments:
            self._left.append(self._held)

    def _take(self, char: str) -> int | None:
        return self._meaning(char)

    def _text(self, start: int = 0) -> str:
        return "".join(self._left[start:])

    def _is_end(self) -> bool:
        """Whether what is left is the end of a call: blank, or the rest of its object."""
        text = self._text().strip().strip(self._form.tail).strip()
        return not text or (self._meaning == self._in_rest and text[0] in ",}")

    def _quoted(self) -> bool:
        """In strings of arguments the closing marker is text; before them it always ends the block."""
        return self._begun and (self._calls.quoted or self._json.quoted)

    def _end_at_mark(self) -> None:
        if self._meaning == self._in_arguments:
            self._left.append(self._calls.end())
        if not self._begun:
            self._left.append(self._close)
        elif self._is_end():
            self._left.clear()

    def _outside(self, char: str) -> int | None:
        """Where an object, alone or in a list, or a name can start."""
        if char == "{" and self._form.objects:
            self._start_of(char)
            self._meaning = self._in_object
        elif char == "[" and self._form.objects and not self._list:
            self._list = True
        elif char == "]" and self._list:
            self._left.append(char)
            return self._whole()
        elif not char.isspace() and not (char == "," and self._list):
            return self._in_name(char) if self._form.name and not self._list else 0
        if not self._begun or char == "{":
            self._left.append(char)
        return None

    def _start_of(self, char: str) -> None:
        """A value starts: its brackets are counted from here."""
        self._json = Brackets()
        self._json.take(char)
        self._start = len(self._left)
        self._from: int | None = None  # where arguments start whose name is not known yet
        self._to: int | None = None

    def _in_object(self, char: str) -> int | None:
        """Before the arguments, or in arguments that come before the name."""
        counted = self._json.take(char)
        self._left.append(char)
        if not counted:
            return None
        if char == "{" and self._json.depth == 2 and self._from is None:
            self._member()
        elif self._json.depth == 1 and self._from is not None and self._to is None:
            self._to = len(self._left)
        return self._object() if self._json.depth == 0 else None

    def _member(self) -> None:
        """An object starts inside the call's object: it is the arguments if their key is before it."""
        if before_arguments("".join(self._left[-KEY_CHARS - 1 : -1])) is None:
            return
        members = before_arguments("".join(self._left[self._start : -1]))
        if members and (name := name_of(value_of(members))):
            self._begin(name)
            self._calls.more("{")
            self._json.depth = 1
            self._meaning, self._is_whole = self._in_arguments, False
        else:
            self._from = len(self._left) - 1

    def _begin(self, name: str, id: str = "") -> None:
        self._calls.begin(name, id)
        self._begun = True
        self._left.clear()

    def _object(self) -> int | None:
        """An object is complete and no call was started in it: a call, or the end of the block."""
        value = value_of(self._text(self._start))
        name, arguments = name_of(value), self._written(value)
        if not name or arguments is None:
            return 1
        self._begin(name)
        self._calls.more(arguments)
        return self._next()

    def _written(self, call: Any) -> str | None:
        """A call's arguments as they were written; None where they are missing or no object."""
        if not isinstance(call, dict) or not says_arguments(call):
            return None if self._form.needs_arguments else "{}"
        if (arguments := arguments_of(call)) is None:
            return None
        return as_json(arguments) if self._from is None else "".join(self._left[self._from : self._to])

    def _in_arguments(self, char: str) -> int | None:
        rest = self._calls.more(char)
        if rest is None:
            return None
        if rest:
            self._left.append(rest.removesuffix(char))
            self._meaning = self._after
            return self._after(char)
        if self._is_whole:
            return self._whole()
        self._meaning = self._in_rest
        return None

    def _in_rest(self, char: str) -> int | None:
        """Read what is between arguments and the end of their object."""
        counted = self._json.take(char)
        self._left.append(char)
        if not counted or self._json.depth > 0:
            return None
        if value_of('{"": 0' + self._text()) is None:
            return 1
        self._left.clear()
        return self._next()

    def _next(self) -> int | None:
        """An object ended: in a list another may follow."""
        if not self._list:
            return self._whole()
        self._meaning = self._outside
        return None

    def _whole(self) -> int | None:
        """The value ended."""
        if not self._begun:
            return 1
        self._left.clear()
        self._meaning = self._after
        return None if self._close else 1

    def _after(self, char: str) -> int | None:
        if not char.isspace() and char not in self._form.tail:
            return 0
        self._left.append(char)
        return None

    def _in_name(self, char: str) -> int | None:
        if char != "{":
            self._left.append(char)
            self._meaning = self._in_name
            return None if len(self._left) < MAX_NAME_CHARS else 1
        match = re.fullmatch(self._form.name, self._text(), re.DOTALL)
        id = (match and match.groupdict().get("id")) or ""
        name = match and (match["name"] or self._declared.name_in(id))
        if not name:
            return 0
        self._start_of(char)
        self._begin(name, id)
        self._calls.more(char)
        self._meaning, self._is_whole = self._in_arguments, True
        return None

"""Reads protobuf's text format into a tree with lines, without knowing any message.

https://protobuf.dev/reference/protobuf/textformat-spec: `:` is optional before a message, `,` or `;` may
follow a field, messages stand in `{}` or `<>`, strings in either quotes join with those that follow,
`[a.b.C]` and `[domain / a.b.C]` are names, `#` begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

MAX_CHARACTERS = 1 << 20
MAX_DEPTH = 50
MAX_SHOWN = 60
"""Characters of the text that a message quotes."""


class TextFormatError(ValueError):
    """The text is not protobuf's text format: at `line`, for the reason in `text`."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}")
        self.line, self.text = line, text


class Word(str):
    """A value without quotes that is no number: true, CLS, -inf."""

    __slots__ = ()


@dataclass(frozen=True)
class TextMessage:
    """The fields between two braces, in their order; `line` is that of the opening one."""

    line: int
    fields: list[Field] = field(default_factory=list)

    def all(self, name: str) -> list[Field]:
        """The fields of a name."""
        return [each for each in self.fields if each.name == name]

    def messages(self, name: str) -> list[TextMessage]:
        """The messages of a name, without other values."""
        return [each.value for each in self.all(name) if isinstance(each.value, TextMessage)]

    def text(self, name: str) -> str:
        """The first string of a name, "" without one."""
        return next((each.value for each in self.all(name) if isinstance(each.value, str)), "")


@dataclass(frozen=True)
class Field:
    """One field; `[type.googleapis.com/mediapipe.X]` is a name without blanks."""

    name: str
    value: TextMessage | str | int | float
    line: int


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\f\v\n\ufeff]+|\#[^\n]*)
      |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)(?![A-Za-z0-9_])
      |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
      |(?P<mark>[\[\]{}<>:,;./-])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLOSING = {"{": "}", "<": ">"}


def parse(text: str) -> TextMessage:
    """The tree of a text.  Raises TextFormatError, and nothing else."""
    if len(text) > MAX_CHARACTERS:
        raise TextFormatError(
            1, f"the file is {len(text)} characters long; at most {MAX_CHARACTERS} are read"
        )
    return _Parser(list(_tokens(text))).message(close=None, line=1, depth=0)


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise TextFormatError(line, f"unexpected {_shown(text[at : at + MAX_SHOWN].splitlines()[0])}")
        if match.lastgroup != "blank":
            yield _Token(match.lastgroup or "", match[0], line)
        line += match[0].count("\n")
        at = match.end()
    yield _Token("end", "", line)


class _Parser:
    """Reads tokens from left to right, one ahead."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def message(self, close: str | None, line: int, depth: int) -> TextMessage:
        """All fields up to the mark `close`, which is read too; None: up to the end."""
        if depth > MAX_DEPTH:
            raise TextFormatError(line, f"messages are nested more than {MAX_DEPTH} levels deep")
        made = TextMessage(line)
        while not self._ends(close):
            made.fields.extend(self._field(depth))
        return made

    def _ends(self, close: str | None) -> bool:
        if close is None:
            return self._next.kind == "end"
        if self._next.kind == "end":
            raise self._unexpected(f"`{close}`")
        return self._skip(close)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _skip(self, *marks: str) -> bool:
        """Whether the next token is one of the marks, which is then read."""
        found = self._next.kind == "mark" and self._next.text in marks
        self._at += found
        return found

    def _word(self) -> str:
        if self._next.kind != "word":
            raise self._unexpected("a name")
        return self._take().text

    def _unexpected(self, wanted: str) -> TextFormatError:
        token = self._next
        found = _shown(token.text) if token.kind != "end" else "the end of the file"
        return TextFormatError(token.line, f"expected {wanted}, found {found}")

    def _field(self, depth: int) -> Iterator[Field]:
        """One field, or one for each value of a list."""
        line = self._next.line
        name = self._name()
        has_colon = self._skip(":")
        values = self._list(has_colon, depth) if self._skip("[") else [self._value(has_colon, depth)]
        self._skip(",", ";")
        return (Field(name, value, at) for at, value in ((line, each) for each in values))

    def _name(self) -> str:
        if not self._skip("["):
            return self._word()
        parts = [self._word()]
        while not self._skip("]"):
            if self._next.kind == "end" or self._next.kind == "string" or self._next.text in "{}<>[:,;":
                raise self._unexpected("`]`")
            parts.append(self._take().text)
        return f"[{''.join(parts)}]"

    def _list(self, scalars: bool, depth: int) -> list[TextMessage | str | int | float]:
        if self._skip("]"):
            return []
        values = [self._value(scalars, depth)]
        while not self._skip("]"):
            if not self._skip(","):
                raise self._unexpected("`,` or `]`")
            values.append(self._value(scalars, depth))
        return values

    def _value(self, scalars: bool, depth: int) -> TextMessage | str | int | float:
        token = self._next
        if self._skip("{", "<"):
            return self.message(_CLOSING[token.text], token.line, depth + 1)
        if not scalars:
            raise self._unexpected("`:` or a message")
        if token.kind == "string":
            return "".join(self._strings())
        minus = "-" if self._skip("-") else ""
        if self._next.kind == "word":
            return Word(minus + self._take().text)
        if self._next.kind != "number":
            raise self._unexpected("a value")
        return _number(minus, self._take())

    def _strings(self) -> Iterator[str]:
        while self._next.kind == "string":
            token = self._take()
            yield _ESCAPE.sub(partial(_unescaped, token.line), token.text[1:-1])


def _unescaped(line: int, found: re.Match[str]) -> str:
    octal, hexadecimal, short, long, letter = found.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise TextFormatError(line, f"{found[0]} is no character")
    return chr(code)


def _number(minus: str, token: _Token) -> int | float:
    text = token.text
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", text):
        value: int | float = int(text, 16)
    elif re.fullmatch(r"0[0-7]+", text):
        value = int(text, 8)
    elif re.fullmatch(r"[0-9]{1,40}", text):
        value = int(text)
    else:
        value = float(text.rstrip("fF"))
    return -value if minus else value


def _shown(text: str) -> str:
    cut = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return repr(cut) if not cut.isprintable() or "`" in cut else f"`{cut}`"

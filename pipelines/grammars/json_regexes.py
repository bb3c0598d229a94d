"""Rewrites regular expressions of a text into those of the text as JSON strings have it, without the quotes.

A line break is `\\n` there, two characters.  Each text has one form: that of `json.dumps`, where characters
beyond ASCII stand for themselves.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from pipelines.grammars.leaf_formats import FormatError
from pipelines.grammars.regex_rules import SET_OPERATION, TOKEN


class NotHeld(ValueError):
    """A grammar has no form over escaped text here; the text says what in it."""


ESCAPED = ['"', "\\", *map(chr, range(0x20))]
"""Characters that JSON strings hold as escapes."""
AS_RANGES = r'"\\\x00-\x1f'
"""These characters, in a character class."""
CODE = re.compile(r"\\[xuU]\{?([0-9a-fA-F]+)\}?")
FLAGS = re.compile(r"\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?[:)]")


def in_json(text: str) -> str:
    """A text as JSON strings hold it."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def regex_in_json(regex: str, flags: str = "") -> str:
    """The expression of the escaped text; `flags` are those in effect, of `i` and `s`.

    Raises FormatError for what is no expression, and NotHeld for syntax whose characters are not known here.
    """
    pieces: list[str] = []
    outer: list[str] = []
    for token in TOKEN.finditer(regex):
        kind, text = str(token.lastgroup), token[0]
        if kind == "open":
            outer.append(flags)
        if kind in ("open", "zero") and (switch := FLAGS.fullmatch(text)):
            flags = _changed(flags, switch)
        elif kind == "close" and outer:
            flags = outer.pop()
        if kind == "run":
            pieces += [_atom(char, flags) for char in text]
        elif kind in ("class", "free", "char", "other"):
            pieces.append(_atom(text, flags))
        else:
            pieces.append(text)
    return "".join(pieces)


def _changed(flags: str, found: re.Match[str]) -> str:
    on, off = found["on"], found["off"] or ""
    if unknown := set(on + off) - set("ims"):
        raise NotHeld(f"the flag {sorted(unknown)[0]} of an expression")
    return "".join(sorted(set(flags + on) - set(off)))


@lru_cache(1024)
def _atom(text: str, flags: str) -> str:
    """One character of the text, as an expression of what stands for it."""
    members = _members(text, flags)
    if not members:
        return text
    escapes = "|".join(in_json(char).replace("\\", r"\\") for char in members)
    if "i" in flags:
        escapes = f"(?-i:{escapes})"
    plain = _without_escaped(text)
    return f"(?:{plain}|{escapes})" if plain else f"(?:{escapes})"


def _members(text: str, flags: str) -> list[str]:
    """The characters among ESCAPED that it matches."""
    if code := CODE.fullmatch(text):
        return [char for char in ESCAPED if ord(char) == int(code[1], 16)]
    if text[:2] in (r"\p", r"\P"):
        raise NotHeld(text)
    if text.startswith("[") and (SET_OPERATION.search(text) or "[:" in text):
        raise NotHeld(f"the class {text}")
    try:
        matches = re.compile(text, re.ASCII | (re.DOTALL if "s" in flags else re.NOFLAG)).fullmatch
    except (re.error, OverflowError) as error:
        raise FormatError(f"{text} is no part of a regular expression: {error}") from error
    return [char for char in ESCAPED if matches(char)]


def _without_escaped(text: str) -> str:
    """The class of its other characters, "" where it has none."""
    if text == ".":
        return f"[^{AS_RANGES}]"
    if text.startswith("[^"):
        rest = rf"\{text[2:]}" if text[2] == "]" else text[2:]  # a bracket is the first character
        return f"[^{AS_RANGES}{rest}"
    if text.startswith("[") or text[1:] in ("s", "S", "d", "D", "w", "W"):
        return f"[{text}&&[^{AS_RANGES}]]"
    return ""

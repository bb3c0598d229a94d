"""Writes texts and regular expressions in Lark's syntax, as llguidance reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from llguidance import regex_to_lark

ANY = r"(?s:.*)"


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def pattern(regex: str) -> str:
    """Digits and letters in character classes are ASCII only, as in JSON Schema patterns and in xgrammar."""
    return f"/{regex_to_lark(regex, 'dw')}/"


def text_without(excluded: Iterable[str]) -> str:
    """Any text in which none of `excluded` occurs."""
    words = "|".join(_escape(word) for word in excluded)
    return f"/{ANY}/ & ~/{ANY}(?:{words}){ANY}/" if words else f"/{ANY}/"


def split(text: str, specials: Mapping[str, int]) -> Iterator[str | int]:
    """Split a text into plain text and the ids of its special tokens."""
    if not specials:
        yield text
        return
    marks = "|".join(re.escape(mark) for mark in sorted(specials, key=len, reverse=True))
    for piece in re.split(f"({marks})", text):
        if piece:
            yield specials.get(piece, piece)


def first_text(text: str, specials: Mapping[str, int]) -> str:
    """The text before the first special token."""
    first = next(split(text, specials), "")
    return first if isinstance(first, str) else ""


def _escape(text: str) -> str:
    return "".join(char if char.isalnum() or not char.isascii() else f"\\x{ord(char):02x}" for char in text)

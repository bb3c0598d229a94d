"""A grammar in llguidance's form of Lark → rules for its shortest words."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

from pipelines.grammars.regex_rules import LARGEST, regex_rules
from pipelines.grammars.schema_rules import schema_rules
from pipelines.grammars.shortest_words import Item, Rules

TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\\n])*"i?)
    |(?P<space>\s+|//[^\n]*|\#[^\n]*)
    |(?P<head>[?!]?[A-Za-z_][\w-]*(?:\.\d+)?(?:\[[^\]\n]{0,1000}\])?\s*:(?!:))
    |(?P<json>%json\s*|%regex\s*|%llguidance\s*)
    |(?P<directive>%[a-z]+[^\n]*)
    |(?P<regex>/(?:\\.|[^/\\\n])+/[a-z]*)
    |(?P<special><[^>\n]*>)
    |(?P<name>@?[A-Za-z_][\w-]*)
    |(?P<alias>->\s*\w+)
    |(?P<open>[(\[])|(?P<close>[)\]])|(?P<or>\|)
    |(?P<times>[*+?]|\{[\s\d]*(?:,[\s\d]*)?\}|~\s*\d+(?:\s*\.\.\s*\d+)?)
    |(?P<mark>\.\.|[&~])""",
    re.VERBOSE,
)
ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
"""An escape in a string, as llguidance reads it."""
DECODER = json.JSONDecoder()


class UnknownSyntax(ValueError):
    """The grammar has syntax that is not read here."""


def lark_rules(lark: str, rules: Rules, prefix: str) -> bool:
    """Add the rules of a grammar, their names after `prefix`; its `start` is the first of them to be used.

    Whether it has marks of other kinds than sequence, choice and repeat.  A name that begins with @ is
    another grammar, without the prefix.  Raises UnknownSyntax.
    """
    return _LarkReader(lark, rules, prefix).read()


class _LarkReader:
    def __init__(self, lark: str, rules: Rules, prefix: str) -> None:
        self._lark = lark
        self._rules = rules
        self._prefix = prefix
        self._numbers = count()
        self._now: list[list[Item]] = [[]]
        self._outer: list[list[list[Item]]] = []
        self._negated = self._has_marks = False

    def read(self) -> bool:
        at = 0
        while at < len(self._lark):
            token = TOKEN.match(self._lark, at)
            if token is None:
                raise UnknownSyntax(self._lark[at : at + 40])
            at = token.end()
            if token.lastgroup == "json":
                at = self._embedded(token[0].strip(), at)
            elif token.lastgroup not in ("space", "directive", "alias"):
                getattr(self, f"_{token.lastgroup}")(token[0])
        return self._has_marks

    def _add(self, item: str | int) -> None:
        """An expression after `~` is anything but that."""
        self._now[-1].append((0 if self._negated else item, 1))
        self._negated = False

    def _new(self) -> str:
        return f"{self._prefix}({next(self._numbers)}"

    def _head(self, text: str) -> None:
        name = re.split(r"[\[.:\s]", text.lstrip("?!"), maxsplit=1)[0]
        self._outer, self._now = [], [[]]
        self._rules[self._prefix + name] = self._now

    def _embedded(self, kind: str, at: int) -> int:
        try:
            value, end = DECODER.raw_decode(self._lark, at)
        except (ValueError, RecursionError) as error:
            raise UnknownSyntax(str(error)) from error
        if kind == "%json":
            self._embed_schema(value)
        elif kind == "%regex":
            self._add(0)
        return end

    def _embed_schema(self, schema: Any) -> None:
        name = self._new()
        schema_rules(schema, self._rules, name)
        self._add(name)

    def _string(self, text: str) -> None:
        self._add(len(ESCAPE.sub("x", text[1 : text.rindex('"')])))

    def _regex(self, text: str) -> None:
        name = self._new()
        regex_rules(text[1 : text.rindex("/")], self._rules, name)
        self._add(name)

    def _special(self, text: str) -> None:
        self._add(1)

    def _name(self, text: str) -> None:
        self._add(text if text.startswith("@") else self._prefix + text)

    def _open(self, text: str) -> None:
        group = self._new()
        self._add(group)
        if text == "[":
            self._times("?")
        self._outer.append(self._now)
        self._now = self._rules[group] = [[]]

    def _close(self, text: str) -> None:
        if self._outer:
            self._now = self._outer.pop()

    def _or(self, text: str) -> None:
        self._now.append([])

    def _times(self, text: str) -> None:
        least = re.search(r"\d+", text) if text[0] != "{" else re.match(r"\{\s*(\d+)", text)
        times = int(least[least.lastindex or 0]) if least else int(text[0] == "+")
        if self._now[-1]:
            item, before = self._now[-1][-1]
            self._now[-1][-1] = (item, min(before * times, LARGEST))

    def _mark(self, text: str) -> None:
        self._has_marks = True
        self._negated = text == "~"

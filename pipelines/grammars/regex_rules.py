"""A regular expression → rules for its shortest words: groups, alternatives and counts of repeats."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import count

from pipelines.grammars.shortest_words import Item, Rules

TOKEN = re.compile(
    r"""(?P<run>[\w ,:;"'<>=/!@%&~-]+(?![*+?{]))
    |(?P<class>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])
    |(?P<zero>\\[bBAzZG]|[\^$]|\(\?[a-zA-Z-]+\))
    |(?P<free>\.|\\[dDwWsS]|\\[pP](?:\{[^}]{0,64}\}|.))
    |(?P<char>\\[xu]\{[^}]{0,64}\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.)
    |(?P<open>\((?:\?(?:P?<\w+>|[a-zA-Z-]*:|<?[=!]))?)
    |(?P<close>\))
    |(?P<or>\|)
    |(?P<times>[*+?]\??|\{[\s\d]*(?:,[\s\d]*)?\}\??)
    |(?P<other>\[.*|.)""",
    re.VERBOSE | re.DOTALL,
)
"""A class without an end, which no compiler takes, is one part up to the end."""
SET_OPERATION = re.compile(r"&&|--|~~|\|\||.\[|\\p")
NOTHING = "[]"
"""The rule of a class without characters."""
LARGEST = 1 << 40
"""Counts above it mean no more."""


def regex_rules(regex: str, rules: Rules, name: str) -> None:
    """Add a rule for a regular expression; its groups become rules of their own.

    Only characters that are fixed count: those of a class or of `.` are chosen, one token at a time.
    """
    numbers = count()
    alternatives: list[list[Item]] = [[]]
    rules[name] = alternatives
    outer: list[list[list[Item]]] = []
    for token in TOKEN.finditer(regex):
        kind, text = token.lastgroup, token[0]
        if kind == "open":
            group = f"{name}.{next(numbers)}"
            alternatives[-1].append((group, 1))
            outer.append(alternatives)
            alternatives = rules[group] = [[]]
        elif kind == "close" and outer:
            alternatives = outer.pop()
        elif kind == "or":
            alternatives.append([])
        elif kind == "times":
            _repeat(alternatives[-1], text)
        elif kind == "class" and _is_empty(text):
            rules[NOTHING] = []
            alternatives[-1].append((NOTHING, 1))
        elif kind != "zero":
            fixed = {"run": len(text), "char": 1, "other": 1}
            alternatives[-1].append((fixed.get(str(kind), 0), 1))


def _repeat(items: list[Item], text: str) -> None:
    least = re.match(r"\{\s*(\d+)", text)
    times = int(least[1]) if least else int(text[0] == "+")
    if items:
        item, before = items[-1]
        items[-1] = (item, min(before * times, LARGEST))


@lru_cache(256)
def _is_empty(text: str) -> bool:
    """Whether a class excludes every character."""
    if not text.startswith("[^") or SET_OPERATION.search(text):
        return False
    try:
        allowed = re.compile(text)
    except (re.error, OverflowError):
        return False
    return not any(allowed.search(some) for some in ("aA0 _-\n\té中", _characters()))


@cache
def _characters() -> str:
    return "".join(map(chr, range(0x110000)))

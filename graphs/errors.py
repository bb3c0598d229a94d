"""Problems of a graph file, each with its line, and the exception that carries all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One problem: `line` counts from 1, `message` states what is wrong and what is allowed."""

    line: int
    message: str
    source: str = "graph.yaml"

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.message}"


class GraphError(Exception):
    """The graph cannot be built.  `problems` holds every reason once, in the order of lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


MAX_WORD_CHARS = 128
"""A longer word is no misspelling: it is compared with nothing, and shown cut."""
MAX_LISTED = 32
"""How many allowed words a message lists."""


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that is most similar to `word`; None where no word is similar."""
    if len(word) > MAX_WORD_CHARS:
        return None
    found = difflib.get_close_matches(word, list(allowed), 1)
    return found[0] if found else None


def shown(word: str) -> str:
    """A word as messages quote it: a long one is cut."""
    return word if len(word) <= MAX_WORD_CHARS else word[: MAX_WORD_CHARS - 3] + "..."


def hint(word: str, allowed: Iterable[str], kind: str = "allowed") -> str:
    """The end of a message about an unknown word: the most similar allowed word, else all of them."""
    words = list(allowed)
    near = nearest(word, words)
    if near is not None:
        return f"; did you mean `{near}`?"
    return f"; {kind}: {listed(words)}" if words else ""


def listed(words: list[str]) -> str:
    """The first MAX_LISTED words, and the number of the others."""
    others = [f"{len(words) - MAX_LISTED} more"] if len(words) > MAX_LISTED else []
    return ", ".join(words[:MAX_LISTED] + others)

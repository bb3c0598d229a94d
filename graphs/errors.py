"""What can be wrong with a graph file: problems with lines, and the one exception that carries them all.

Knows nothing of YAML, nodes or files.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One thing to mend: `line` counts from 1, `message` says what is wrong and what is allowed."""

    line: int
    message: str
    source: str = "graph.yaml"

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.message}"


class GraphError(Exception):
    """The graph cannot be built.  `problems` holds every reason, in the order of lines, none twice."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that comes closest to `word`, if one comes close."""
    found = difflib.get_close_matches(word, list(allowed), 1)
    return found[0] if found else None


def hint(word: str, allowed: Iterable[str], kind: str = "allowed") -> str:
    """The end of a message about an unknown word: the nearest allowed one, else the whole list."""
    words = list(allowed)
    near = nearest(word, words)
    if near is not None:
        return f"; did you mean `{near}`?"
    return f"; {kind}: {', '.join(words)}" if words else ""

"""Which dialect a path speaks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from server.dialects.definitions import OPENAI
from server.dialects.dialect import Dialect


class Dialects:
    """The dialects of a server, each with the paths that speak it; all other paths speak OpenAI's."""

    def __init__(self, spoken: Iterable[tuple[str, Dialect]]) -> None:
        """`spoken` has regular expressions of whole paths, without groups; the first that matches counts."""
        pairs = list(spoken)
        self._dialects = [dialect for _, dialect in pairs]
        self._paths = re.compile("|".join(f"({paths})" for paths, _ in pairs), re.DOTALL)

    def of(self, path: str) -> Dialect:
        """The dialect of a request path; the path need not exist."""
        found = self._paths.fullmatch(path)
        return OPENAI if found is None or found.lastindex is None else self._dialects[found.lastindex - 1]

"""Reads a JSON string that arrives in pieces, from behind its opening quote."""

from __future__ import annotations

import json
import re

PLAIN = re.compile(r'[^"\\]+')
FIRST_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
ESCAPE = re.compile(
    rf"{FIRST_HALF.pattern}\\u[dD][c-fC-F][0-9a-fA-F]{{2}}|\\u[0-9a-fA-F]{{4}}|\\[^u]", re.DOTALL
)
HALF_CHARS = 6
"""Characters of one half of a pair of escapes."""


class JsonString:
    """`is_closed` once its closing quote was read; `rest` is what follows that, or what is not read yet."""

    def __init__(self) -> None:
        self.is_closed = False
        self.rest = ""

    def push(self, piece: str) -> str:
        """The characters of this piece, up to the closing quote or to an escape that has not come whole."""
        self.rest += piece
        if self.is_closed:
            return ""
        read, at, written = [], 0, self.rest
        while at < len(written) and written[at] != '"':
            plain = PLAIN.match(written, at)
            escape = plain or ESCAPE.match(written, at)
            if escape is None or (not plain and _is_half(escape[0], written[escape.end() :])):
                break
            read.append(plain[0] if plain else _character(escape[0]))
            at = escape.end()
        self.is_closed = at < len(written) and written[at] == '"'
        self.rest = written[at + self.is_closed :]
        return "".join(read)


def _is_half(escape: str, rest: str) -> bool:
    """Whether it is the first half of a pair whose second half may still come."""
    return bool(FIRST_HALF.fullmatch(escape)) and len(rest) < HALF_CHARS and r"\u".startswith(rest[:2])


def _character(escape: str) -> str:
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:
        return escape

"""The text in the arguments of a custom tool's call, out of JSON that arrives in pieces."""

from __future__ import annotations

import json
import re

OPENING = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*"', re.DOTALL)
BEGINS = re.compile(r'\s*(?:\{\s*(?:"(?:[^"\\]|\\.)*(?:"\s*(?::\s*)?)?)?)?', re.DOTALL)
PLAIN = re.compile(r'[^"\\]+')
ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])")
LONGEST_ESCAPE = 12


class ArgumentText:
    """Takes the arguments of a call, an object with one text; `text` is what has come of it.

    Where they are something else, they are the text as they stand.
    """

    def __init__(self) -> None:
        self.text = ""
        self._written = ""  # not yet read
        self._is_open: bool | None = None  # whether the text has begun; None: not known yet

    def push(self, piece: str) -> str:
        """The text of this piece, as far as it can be read."""
        self._written += piece
        if self._is_open is None:
            self._open()
        if self._is_open is None:
            return ""
        read = self._decoded() if self._is_open else self._rest()
        self.text += read
        return read

    def finish(self) -> str:
        """What is left when the arguments end."""
        read = self._rest() if self._is_open is None else ""
        self.text += read
        return read

    def _open(self) -> None:
        if found := OPENING.match(self._written):
            self._is_open, self._written = True, self._written[found.end() :]
        elif not BEGINS.fullmatch(self._written):
            self._is_open = False

    def _rest(self) -> str:
        rest, self._written = self._written, ""
        return rest

    def _decoded(self) -> str:
        """The characters up to the closing quote or to an escape that has not come whole."""
        read, at, written = [], 0, self._written
        while at < len(written) and written[at] != '"':
            if plain := PLAIN.match(written, at):
                read.append(plain[0])
                at = plain.end()
                continue
            escape = ESCAPE.match(written, at)
            if escape is None or _is_half(escape[0], written[escape.end() :]):
                break
            read.append(_character(escape[0]))
            at = escape.end()
        self._written = written[at:]
        return "".join(read)


def _is_half(escape: str, rest: str) -> bool:
    """Whether it is the first half of a pair whose second has not come whole."""
    first = re.fullmatch(r"\\u[dD][89abAB][0-9a-fA-F]{2}", escape)
    return first is not None and len(rest) < LONGEST_ESCAPE // 2 and r"\u".startswith(rest[:2])


def _character(escape: str) -> str:
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:
        return escape

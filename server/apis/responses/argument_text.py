"""The text in the arguments of a custom tool's call, out of JSON that arrives in pieces."""

from __future__ import annotations

import re

from pipelines.values.json_strings import JsonString

OPENING = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*"', re.DOTALL)
BEGINS = re.compile(r'\s*(?:\{\s*(?:"(?:[^"\\]|\\.)*(?:"\s*(?::\s*)?)?)?)?', re.DOTALL)


class ArgumentText:
    """Takes the arguments of a call, an object with one text; `text` is what has come of it.

    Where they are something else, they are the text as they stand.
    """

    def __init__(self) -> None:
        self.text = ""
        self._opening = ""  # what may be the beginning of an object
        self._string: JsonString | None = None
        self._is_plain = False

    def push(self, piece: str) -> str:
        """The text of this piece, as far as it can be read."""
        read = self._read(piece)
        self.text += read
        return read

    def finish(self) -> str:
        """What is left when the arguments end."""
        rest, self._opening = self._opening, ""
        self.text += rest
        return rest

    def _read(self, piece: str) -> str:
        if self._string is not None:
            return self._string.push(piece)
        if self._is_plain:
            return piece
        self._opening += piece
        opening = self._opening
        if start := OPENING.match(opening):
            self._string, self._opening = JsonString(), ""
            return self._string.push(opening[start.end() :])
        if BEGINS.fullmatch(opening):
            return ""
        self._is_plain, self._opening = True, ""
        return opening

"""Where a block of calls ends: at a tag, or where the brackets of a value close.

Knows nothing of what the block says.
"""

from __future__ import annotations

from pipelines.parsers.tags import TagScanner

CLOSES = {"[": "]", "{": "}"}


class TagEnd:
    """A block that a tag ends."""

    def __init__(self, tag: str) -> None:
        self._scanner = TagScanner(tag)
        self._parts: list[str] = []

    def push(self, text: str) -> str | None:
        """What follows the tag, None while none came."""
        for before, tag in self._scanner.push(text):
            self._parts.append(before)
            if tag:
                rest, self._scanner.held = self._scanner.held, ""
                return rest
        return None

    def body(self) -> str:
        return "".join(self._parts) + self._scanner.held


class BracketEnd:
    """A block that is one bracketed value, with white space before it or, if `named`, one line that names it.

    Only brackets of the kind that opened the value are counted, and none in quotes, so that the end of a
    well-formed value is found without reading it.  A block that begins otherwise ends at once.
    """

    def __init__(self, named: bool) -> None:
        self._named = named
        self._parts: list[str] = []
        self._name = False  # a name stands before the value
        self._open = ""
        self._depth = 0
        self._quote = ""
        self._escaped = False

    def push(self, text: str) -> str | None:
        """What follows the value, None while it is open."""
        for at, char in enumerate(text, 1):
            if self._ends(char):
                self._parts.append(text[:at])
                return text[at:]
        self._parts.append(text)
        return None

    def body(self) -> str:
        return "".join(self._parts)

    def _ends(self, char: str) -> bool:
        if self._escaped:
            self._escaped = False
        elif self._quote:
            self._escaped = char == "\\"
            self._quote = "" if char == self._quote else self._quote
        elif not self._depth:
            return self._begins_wrong(char)
        elif char in "\"'":
            self._quote = char
        elif char == self._open:
            self._depth += 1
        elif char == CLOSES[self._open]:
            self._depth -= 1
            return self._depth == 0
        return False

    def _begins_wrong(self, char: str) -> bool:
        if char == "{" or (char == "[" and not self._name):
            self._open, self._depth = char, 1
            return False
        if char.isspace() and not self._name:
            return False
        self._name = True
        return not self._named or char == "\n"

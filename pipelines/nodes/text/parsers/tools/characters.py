"""Reads a block character by character, to its closing marker or to where its value ends.

The subclass decides what a character means.
"""

from __future__ import annotations


class CharacterReader:
    """The part of a reader that finds the closing marker and stores the rest."""

    def __init__(self, close: str) -> None:
        self.closed = False
        self._close = close
        self._left: list[str] = []  # characters since the block's beginning or its last call
        self._held = ""  # what may become the closing marker

    def push(self, text: str) -> str | None:
        text, self._held = self._held + text, ""
        for at, char in enumerate(text):
            if char == self._close[:1] and not self._quoted():
                if text.startswith(self._close, at):
                    self.closed = True
                    self._end_at_mark()
                    return text[at + len(self._close) :]
                if len(text) - at < len(self._close) and self._close.startswith(text[at:]):
                    self._held = text[at:]
                    break
            if (taken := self._take(char)) is not None:
                return text[at + taken :]
        return None

    def left(self) -> str:
        return "".join(self._left)

    def _take(self, char: str) -> int | None:
        """None while the block continues; at its end, how many of this character belong to the block.

        That is 1 where the character ends the block, 0 where it is not allowed there.
        """
        raise NotImplementedError

    def _quoted(self) -> bool:
        """Whether the closing marker would be text here."""
        raise NotImplementedError

    def _end_at_mark(self) -> None:
        """The closing marker came."""
        raise NotImplementedError

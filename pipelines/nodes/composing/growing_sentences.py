"""A text that grows, in parts that are spoken one after another: its sentences, and its lines."""

from __future__ import annotations

import re

END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*+(?=\s)|[。！？।]+[」』”]*|\n+")
"""What ends a part, with what belongs to it; a point counts once something stands behind it."""
PAUSES = (", ", "; ", ": ", " – ", " ")
"""Where a part that is too long is cut, the better places first."""
SHORT_FORMS = frozenset(
    ("mr", "mrs", "ms", "dr", "prof", "st", "e.g", "i.e", "etc", "vs", "fig", "jr", "sr", "bzw", "z.b", "ca")
)
"""Words that end with a point within a sentence."""
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
BULLET = re.compile(r"^\s*(?:[-+•]|\d+[.)])\s+")
MARKS = re.compile(r"[*`#~|>]+")


class GrowingSentences:
    """Gives each part once it is whole; all parts together are the text."""

    def __init__(self, longest: int) -> None:
        """`longest` is how many characters a part may have."""
        self._longest = longest
        self._text = ""
        self._searched = 0  # no end of a part is before it

    def push(self, text: str) -> list[str]:
        """The parts that the text's next piece completes."""
        self._text += text
        parts = []
        while (end := self._end()) is not None:
            parts.append(self._text[:end])
            self._text, self._searched = self._text[end:], 0
        return parts

    def rest(self) -> list[str]:
        """What is left at the end of the text."""
        text, self._text = self._text, ""
        return [text] if text else []

    def _end(self) -> int | None:
        """The place where the first part ends; None where it is not whole yet."""
        for mark in END.finditer(self._text, self._searched):
            if mark.end() > self._longest:
                break
            if not self._is_within(mark):
                return mark.end()
        if len(self._text) > self._longest:
            return self._cut()
        words = self._text.rsplit(maxsplit=1)
        is_open = bool(words) and self._text.endswith(words[-1])  # its last word may go on
        self._searched = len(self._text) - (len(words[-1]) if is_open else 0)
        return None

    def _is_within(self, mark: re.Match[str]) -> bool:
        """Whether a point is that of a short form, of an initial or of a number in a list."""
        before = self._text[: mark.start()]
        if not before.strip():
            return True
        if mark[0] != ".":
            return False
        word = before.split()[-1].strip("(\"'“‘*_").casefold()
        is_first = len(before.split()) == 1
        return word in SHORT_FORMS or (len(word) == 1 and word.isalpha()) or (is_first and word.isdigit())

    def _cut(self) -> int:
        for pause in PAUSES:
            if (at := self._text.rfind(pause, self._longest // 4, self._longest)) >= 0:
                return at + len(pause)
        return self._longest


def spoken(text: str) -> str:
    """A part of a text as it is read aloud: without the marks of Markdown; "" where it has no word."""
    plain = MARKS.sub("", LINK.sub(r"\1", BULLET.sub("", text))).replace("_", " ").strip()
    return plain if any(map(str.isalnum, plain)) else ""

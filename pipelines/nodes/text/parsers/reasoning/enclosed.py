"""Parses reasoning that is followed by an answer between two markers of its own.

The markers around the answer and the blank lines inside them are markup; an answer without markers is
content.
"""

from __future__ import annotations

from pipelines.nodes.text.markup.tags import TagScanner
from pipelines.nodes.text.parsers.reasoning.think import Markers, Think, Unopened


class Enclosed:
    """`Think`, with the markers of the answer removed."""

    def __init__(
        self, markers: Markers, answer: tuple[str, str], prompt_text: str, unopened: Unopened = "text"
    ) -> None:
        self._think = Think(markers, prompt_text, unopened)
        self._open, self._close = answer
        self._scanner = TagScanner(self._open)
        self._answering = False  # between the markers of the answer
        self._has_content = False
        self._blank: list[str] = []  # white space that is content only if content follows

    @property
    def inside(self) -> bool:
        return self._think.inside

    @property
    def over(self) -> bool:
        return self._think.over

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = self._think.push(text, final=final)
        return reasoning, self._answer(content, final)

    def _answer(self, text: str, final: bool) -> str:
        shown = ""
        for before, tag in self._scanner.push(text, final=final):
            shown += self._content(before)
            if tag == self._open:
                shown += self._opened()
            elif tag:
                self._scanner.tags, self._blank = (), []
        if final and not self._answering:
            shown += "".join(self._blank)
        return shown

    def _opened(self) -> str:
        """The opening marker as content: "" where it comes before all content."""
        if self._has_content:
            return self._content(self._open)
        self._answering, self._blank = True, []
        self._scanner.tags = (self._close,)
        return ""

    def _content(self, text: str) -> str:
        if self._answering and not self._has_content and not any(self._blank):
            text = text.lstrip("\n")
        shown = text.rstrip()
        if not shown:
            self._blank += [text] if text else []
            return ""
        said, self._blank = "".join((*self._blank, shown)), [text[len(shown) :]]
        if not self._has_content:
            self._has_content = True
            self._scanner.tags = (self._close,) if self._answering else ()
        return said

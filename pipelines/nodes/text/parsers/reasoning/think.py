"""Parses reasoning between two markers, such as `<think>` and `</think>`.

Reasoning that is never closed stays reasoning.  The blank lines around it are markup: neither reasoning nor
content.  A closing marker that comes first of all ends reasoning that began in the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipelines.nodes.text.markup.tags import TagScanner

Unopened = Literal["text", "shown", "held"]
"""What is done with text that no opening marker precedes, while a closing one may show that it is reasoning.

text: none may, it is content.  shown: it is content at once, and of a closing marker only the marker is
removed, as suits a stream.  held: it waits for the marker, which makes it reasoning, or for the end.
"""


@dataclass(frozen=True)
class Span:
    """The markers around the reasoning of one reply, and whether the reply starts inside it."""

    start: str
    end: str
    opened: bool = False


@dataclass(frozen=True)
class Markers:
    """The markers of one family of models.

    With `begins_inside` a reply without an opening marker starts with reasoning.  A marker in `ends` closes
    reasoning that was left open, and is content itself.  `special`: the markers are special tokens, which
    plain text omits.  `may_be_unopened`: text before a closing marker is reasoning, opened or not.
    """

    open: tuple[str, ...] = ("<think>",)
    close: tuple[str, ...] = ("</think>",)
    ends: tuple[str, ...] = ()
    begins_inside: bool = False
    special: bool = False
    may_be_unopened: bool = False


def span(markers: Markers, prompt_text: str) -> Span | None:
    """The markers of reasoning in the reply to a prompt; None where the prompt closed the reasoning."""
    prompt = prompt_text.rstrip()
    if prompt.endswith(markers.close):
        return None
    opened = prompt.endswith(markers.open) or markers.begins_inside
    return Span(markers.open[0], markers.close[0], opened)


class Think:
    """Splits one choice's text.  The prompt may have opened or closed the reasoning already."""

    def __init__(self, markers: Markers, prompt_text: str, unopened: Unopened = "text") -> None:
        where = span(markers, prompt_text)
        self._markers = markers
        self._inside = where is not None and where.opened
        may_close = unopened != "text" and markers.may_be_unopened and where is not None and not self._inside
        self._closes = markers.close if may_close else ()  # the markers that may come unopened
        self._held: list[str] | None = [] if unopened == "held" and may_close else None
        self._scanner = TagScanner(*markers.open if where else (), *self._closes)
        if self._inside:
            is_open = prompt_text.rstrip().endswith(markers.open)
            self._scanner.tags = (*markers.close, *markers.ends, *(() if is_open else markers.open))
        self._has_content = False  # so no reasoning follows
        self._trim = self._inside  # blank lines after a marker are markup
        self._blank: list[str] = []  # given out only if more text of its kind follows

    @property
    def inside(self) -> bool:
        """Whether the text so far ends in reasoning."""
        return self._inside

    @property
    def over(self) -> bool:
        """Whether no reasoning can follow."""
        return self._has_content and not self._inside and self._held is None

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = "", ""
        for before, tag in self._scanner.push(text, final=final):
            thought, said = (self._from_inside if self._inside else self._from_outside)(before, tag)
            reasoning, content = reasoning + thought, content + said
        if final and not self._inside:
            content, self._blank = "".join((content, self._settle(), *self._blank)), []
        return reasoning, content

    def _from_inside(self, before: str, tag: str) -> tuple[str, str]:
        reasoning = self._reasoning(before)
        if tag in self._markers.open:
            return reasoning + self._opened_late(tag), ""
        return reasoning, self._close(tag) if tag else ""

    def _from_outside(self, before: str, tag: str) -> tuple[str, str]:
        """Blank text before the first marker is neither."""
        text = self._untrimmed(before)
        if not (tag or self._has_content or text.strip()):
            self._blank.append(text)
            return "", ""
        text, self._blank = "".join((*self._blank, text)), []
        if tag in self._closes:
            return self._close_unopened(text)
        if self._has_content or text.strip():
            return "", self._content(text, tag)
        self._open()
        return "", ""

    def _content(self, text: str, tag: str) -> str:
        """Content came first: what follows is content, markers included, unless a closing one comes next."""
        if tag or not self._has_content:
            self._has_content, self._closes = True, () if tag else self._closes
            others = (*self._markers.open, *self._markers.ends)
            self._scanner.tags = (*self._closes, *others) if self._closes else ()
        if self._held is None:
            return text + tag
        self._held.append(text + tag)
        return "" if self._closes else self._settle()

    def _close_unopened(self, text: str) -> tuple[str, str]:
        """The first marker of all closes: what was held is reasoning, what was shown has been content."""
        held, self._held = self._held, None
        said = text if self._has_content or text.strip() else ""
        self._close(self._markers.close[0])
        self._closes = ()
        if held is None:
            return "", said
        thought = "".join(held) + said
        return thought.strip("\n"), ""

    def _settle(self) -> str:
        """What was held, as content."""
        held, self._held = self._held or [], None
        return "".join(held)

    def _open(self) -> None:
        self._inside, self._trim = True, True
        self._closes, self._held = (), None
        self._scanner.tags = (*self._markers.close, *self._markers.ends)

    def _opened_late(self, tag: str) -> str:
        """A second opening marker as reasoning: "" where nothing came before it."""
        began = not self._trim
        self._scanner.tags = (*self._markers.close, *self._markers.ends)
        return self._reasoning(tag) if began else ""

    def _close(self, tag: str) -> str:
        """The closing marker as content.  There is one block of reasoning: what follows is content."""
        content = tag if tag in self._markers.ends else ""
        self._inside, self._trim, self._has_content = False, not content, True
        self._blank, self._scanner.tags = [], ()
        return content

    def _reasoning(self, text: str) -> str:
        text = self._untrimmed(text)
        shown = text.rstrip("\n")
        if not shown:
            self._blank.append(text)
            return ""
        thought, self._blank = "".join((*self._blank, shown)), [text[len(shown) :]]
        return thought

    def _untrimmed(self, text: str) -> str:
        if not self._trim:
            return text
        text = text.lstrip("\n")
        self._trim = not text
        return text

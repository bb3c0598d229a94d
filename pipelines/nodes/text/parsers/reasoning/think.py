"""Parses reasoning between two markers, such as `<think>` and `</think>`.

Reasoning that is never closed stays reasoning.  The blank lines around it are markup: neither reasoning nor
content.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.nodes.text.parsers.tags import TagScanner


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
    plain text omits.
    """

    open: tuple[str, ...] = ("<think>",)
    close: tuple[str, ...] = ("</think>",)
    ends: tuple[str, ...] = ()
    begins_inside: bool = False
    special: bool = False


def span(markers: Markers, prompt_text: str) -> Span | None:
    """The markers of reasoning in the reply to a prompt; None where the prompt closed the reasoning."""
    prompt = prompt_text.rstrip()
    if prompt.endswith(markers.close):
        return None
    opened = prompt.endswith(markers.open) or markers.begins_inside
    return Span(markers.open[0], markers.close[0], opened)


class Think:
    """Splits one choice's text.  The prompt may have opened or closed the reasoning already."""

    def __init__(self, markers: Markers, prompt_text: str) -> None:
        where = span(markers, prompt_text)
        self._markers = markers
        self._inside = where is not None and where.opened
        self._scanner = TagScanner(*markers.open if where else ())
        if self._inside:
            is_open = prompt_text.rstrip().endswith(markers.open)
            self._scanner.tags = (*markers.close, *markers.ends, *(() if is_open else markers.open))
        self._has_content = False  # so no reasoning follows
        self._trim = self._inside  # blank lines after a marker are markup
        self._held_blank = ""  # given out only if more text of its kind follows

    @property
    def inside(self) -> bool:
        """Whether the text so far ends in reasoning."""
        return self._inside

    @property
    def over(self) -> bool:
        """Whether no reasoning can follow."""
        return self._has_content and not self._inside

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = "", ""
        for before, tag in self._scanner.push(text, final=final):
            if not self._inside:
                content += self._content(before, tag)
                continue
            reasoning += self._reasoning(before)
            if tag in self._markers.open:
                reasoning += self._opened_late(tag)
            elif tag:
                content += self._close(tag)
        if final and not self._inside:
            content, self._held_blank = content + self._held_blank, ""
        return reasoning, content

    def _content(self, before: str, tag: str) -> str:
        """The content of text outside reasoning: blank text before the opening marker is none."""
        text = self._held_blank + self._untrimmed(before)
        self._held_blank = ""
        if self._has_content or text.strip():  # content came first: what follows is content, markers included
            self._has_content, self._scanner.tags = True, ()
            return text + tag
        if tag:
            self._open()
        else:
            self._held_blank = text
        return ""

    def _open(self) -> None:
        self._inside, self._trim = True, True
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
        self._held_blank, self._scanner.tags = "", ()
        return content

    def _reasoning(self, text: str) -> str:
        text = self._untrimmed(text)
        shown = (self._held_blank + text).rstrip("\n")
        self._held_blank = (self._held_blank + text)[len(shown) :]
        return shown

    def _untrimmed(self, text: str) -> str:
        if not self._trim:
            return text
        text = text.lstrip("\n")
        self._trim = not text
        return text

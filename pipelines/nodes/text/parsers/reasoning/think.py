"""Reasoning between two marks, such as `<think>` and `</think>`.

Knows nothing of tools or tokens.  Reasoning that never closes stays reasoning; the blank lines that the
template's form puts around it are markup and belong to neither side.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.nodes.text.parsers.tags import TagScanner


@dataclass(frozen=True)
class Span:
    """The marks around the reasoning of one reply, and whether it stands open when the reply begins."""

    start: str
    end: str
    opened: bool = False


@dataclass(frozen=True)
class Marks:
    """What a family writes around its reasoning.

    A model that `begins_inside` leaves the opening mark to the template, or forgets it.  A mark in `ends`
    closes reasoning that was left open, and is content itself.  `special` says that marks are special
    tokens, which plain text leaves out.
    """

    open: tuple[str, ...] = ("<think>",)
    close: tuple[str, ...] = ("</think>",)
    ends: tuple[str, ...] = ()
    begins_inside: bool = False
    special: bool = False


def span(marks: Marks, prompt_text: str) -> Span | None:
    """Where reasoning stands in the reply to a prompt; None where the prompt says that there is none."""
    prompt = prompt_text.rstrip()
    if prompt.endswith(marks.close):
        return None
    opened = prompt.endswith(marks.open) or marks.begins_inside
    return Span(marks.open[0], marks.close[0], opened)


class Think:
    """One choice's text split in two.  The prompt may have opened the reasoning already, or closed it."""

    def __init__(self, marks: Marks, prompt_text: str) -> None:
        where = span(marks, prompt_text)
        self._marks = marks
        self._inside = where is not None and where.opened
        self._scanner = TagScanner(*marks.open if where else ())
        if self._inside:
            said = prompt_text.rstrip().endswith(marks.open)
            self._scanner.tags = (*marks.close, *marks.ends, *(() if said else marks.open))
        self._spoke = False  # content was shown, so no reasoning follows
        self._trim = self._inside  # blank lines after a mark are markup
        self._held_blank = ""  # blank text that is shown only if more of its kind follows

    @property
    def inside(self) -> bool:
        """Whether what was pushed so far ends in reasoning."""
        return self._inside

    @property
    def over(self) -> bool:
        """Whether no reasoning can follow."""
        return self._spoke and not self._inside

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = "", ""
        for before, tag in self._scanner.push(text, final=final):
            if not self._inside:
                content += self._content(before, tag)
                continue
            reasoning += self._reasoning(before)
            if tag in self._marks.open:
                reasoning += self._opened_late(tag)
            elif tag:
                content += self._close(tag)
        if final and not self._inside:
            content, self._held_blank = content + self._held_blank, ""
        return reasoning, content

    def _content(self, before: str, tag: str) -> str:
        """Content of text that is no reasoning: blank text before the opening mark is none."""
        text = self._held_blank + self._untrimmed(before)
        self._held_blank = ""
        if self._spoke or text.strip():  # content came first: what follows is content, marks and all
            self._spoke, self._scanner.tags = True, ()
            return text + tag
        if tag:
            self._open()
        else:
            self._held_blank = text
        return ""

    def _open(self) -> None:
        self._inside, self._trim = True, True
        self._scanner.tags = (*self._marks.close, *self._marks.ends)

    def _opened_late(self, tag: str) -> str:
        """Reasoning that the mark is: none when it opens what was taken for open already."""
        began = not self._trim
        self._scanner.tags = (*self._marks.close, *self._marks.ends)
        return self._reasoning(tag) if began else ""

    def _close(self, tag: str) -> str:
        """Content that the mark is.  Reasoning stands once: whatever follows is content."""
        content = tag if tag in self._marks.ends else ""
        self._inside, self._trim, self._spoke = False, not content, True
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

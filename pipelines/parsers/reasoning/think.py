"""Reasoning between `<think>` and `</think>`, as Qwen3 and its kin write it.

Knows nothing of tools or tokens.  Reasoning that never closes stays reasoning; the blank lines that the
template's form puts around it are markup and belong to neither side.
"""

from __future__ import annotations

from pipelines.parsers.tags import TagScanner

OPEN, CLOSE = "<think>", "</think>"


class Think:
    """One choice's text split in two.  A template may have opened the reasoning in the prompt already."""

    def __init__(self, prompt_text: str) -> None:
        self._inside = prompt_text.rfind(OPEN) > prompt_text.rfind(CLOSE)
        self._opened = self._inside
        self._scanner = TagScanner(CLOSE if self._inside else OPEN)
        self._started = False  # some content or reasoning was shown
        self._trim = self._inside  # blank lines after a tag are markup
        self._held_blank = ""  # blank text at the end of reasoning: shown only if more reasoning follows

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = "", ""
        for before, tag in self._scanner.push(text, final=final):
            if self._inside:
                reasoning += self._reasoning(before)
            else:
                content += self._content(before)
            if tag:
                self._switch(tag)
        return reasoning, content

    def _switch(self, tag: str) -> None:
        self._inside = tag == OPEN
        self._opened = True
        self._held_blank = ""
        self._trim = True
        # reasoning stands once, before the content: a later <think> is content
        self._scanner.tags = (CLOSE,) if self._inside else ()

    def _reasoning(self, text: str) -> str:
        text = self._untrimmed(text)
        shown = (self._held_blank + text).rstrip("\n")
        self._held_blank = (self._held_blank + text)[len(shown) :]
        return shown

    def _content(self, text: str) -> str:
        if self._opened:
            return self._untrimmed(text)
        if text.strip():  # content came first, so a later tag is no reasoning
            self._scanner.tags = ()
        return text

    def _untrimmed(self, text: str) -> str:
        if not self._trim:
            return text
        text = text.lstrip("\n")
        self._trim = not text
        return text

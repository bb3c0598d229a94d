"""Reasoning between `<think>` and `</think>`, as Qwen3 and its kin write it.

Knows nothing of tools or tokens.  Reasoning that never closes stays reasoning; the blank lines that the
template's form puts around it are markup and belong to neither side.
"""

from __future__ import annotations

from pipelines.parsers.tags import TagScanner

OPEN, CLOSE = "<think>", "</think>"


class Think:
    """One choice's text split in two.  The prompt may have opened the reasoning already, or closed it."""

    def __init__(self, prompt_text: str) -> None:
        prompt = prompt_text.rstrip()
        self._inside = prompt.endswith(OPEN)
        self._scanner = TagScanner(*(CLOSE,) if self._inside else () if prompt.endswith(CLOSE) else (OPEN,))
        self._spoke = False  # content was shown, so no reasoning follows
        self._trim = self._inside  # blank lines after a tag are markup
        self._held_blank = ""  # blank text at the end of reasoning: shown only if more reasoning follows

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = "", ""
        for before, tag in self._scanner.push(text, final=final):
            if self._inside:
                reasoning += self._reasoning(before)
                if tag:
                    self._close()
                continue
            content += self._untrimmed(before)
            if self._spoke or before.strip():  # content came first: what follows is content, tags and all
                content += tag
                self._spoke, self._scanner.tags = True, ()
            elif tag:
                content = ""  # blank text before the tag is markup
                self._open()
        return reasoning, content

    def _open(self) -> None:
        self._inside, self._trim = True, True
        self._scanner.tags = (CLOSE,)

    def _close(self) -> None:
        """Reasoning stands once: whatever follows is content."""
        self._inside, self._trim, self._spoke = False, True, True
        self._held_blank, self._scanner.tags = "", ()

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

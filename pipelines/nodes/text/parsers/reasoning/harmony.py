"""Parses reasoning in OpenAI's harmony format (gpt-oss): messages in channels, of which `analysis` is
reasoning.

A message to a recipient (`to=…`) is passed on unchanged, for the parser of tool calls.
"""

from __future__ import annotations

from pipelines.nodes.text.parsers.reasoning.think import Span, Unopened
from pipelines.nodes.text.parsers.tags import TagScanner

CHANNEL, MESSAGE, START = "<|channel|>", "<|message|>", "<|start|>assistant"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
LONGEST_HEADER = 200
"""Characters.  A longer text without a message is no header but plain text."""
ANALYSIS = Span(f"{CHANNEL}analysis{MESSAGE}", f"<|end|>{START}{CHANNEL}final{MESSAGE}")
"""Reasoning that the answer follows directly."""


def span(prompt_text: str) -> Span | None:
    return ANALYSIS


class Harmony:
    """One choice's messages split in two: header, text, end, and so on.

    Every message says its channel, whatever the prompt ended with: nothing is unopened.
    """

    def __init__(self, prompt_text: str, unopened: Unopened = "text") -> None:
        self._scanner = TagScanner(MESSAGE)
        self._header: str | None = ""  # of the message whose text has not started; None inside a text
        self._channel = "final"
        self._passed_on = False

    @property
    def inside(self) -> bool:
        return self._header is None and self._channel == "analysis"

    @property
    def over(self) -> bool:
        """Always False: a message in any channel can follow."""
        return False

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = "", ""
        for before, tag in self._scanner.push(text, final=final):
            if self._header is not None:
                content += self._start(self._header + before, tag)
            elif self._channel == "analysis":
                reasoning += before
            else:
                content += before
            if tag in ENDS:
                content += tag if self._passed_on else ""
                self._header, self._scanner.tags = "", (MESSAGE,)
        if final and self._header:
            content, self._header = content + self._header, ""
        return reasoning, content

    def _start(self, header: str, tag: str) -> str:
        """The header as content: "" unless the message is passed on or this is no header."""
        self._header = header
        if not tag and len(header) <= LONGEST_HEADER:
            return ""
        self._header, self._scanner.tags = None, ENDS
        _, _, channel = header.partition(CHANNEL)
        self._passed_on = len(header) > LONGEST_HEADER or " to=" in header
        self._channel = "final" if self._passed_on or not channel.startswith("analysis") else "analysis"
        return header + tag if self._passed_on else ""

"""Parses replies of addressed messages (Muse Glimmer): what the model writes to itself is reasoning.

A message is ` to=RECIPIENT<|message|>`, its text and `<|eom|>`, and the next one begins with
`<|start|>assistant`.  Headers and ends are markup; a message to a tool is passed on, for the parser of calls.
"""

from __future__ import annotations

import re

from pipelines.nodes.text.markup.tags import TagScanner
from pipelines.nodes.text.parsers.reasoning.headers import bounded_space, may_be_header
from pipelines.nodes.text.parsers.reasoning.think import Span, Unopened

MESSAGE, START = "<|message|>", "<|start|>assistant"
ENDS = ("<|eom|>", "<|eot|>")
HEADER = re.compile(rf"\s*(?:{re.escape(START)})?\s*(?:to=(\S+))?\s*")
SELF = Span(f" to=self{MESSAGE}", f"{ENDS[0]}{START} to=user{MESSAGE}")
"""Reasoning that the answer follows directly."""


class Addressed:
    """One choice's messages split in two: header, text, end, and so on."""

    def __init__(self, prompt_text: str, unopened: Unopened = "text") -> None:
        self._scanner = TagScanner(MESSAGE)
        self._header: str | None = ""  # of the message whose text has not started; None inside a text
        self._to_self = False

    @property
    def inside(self) -> bool:
        return self._header is None and self._to_self

    @property
    def over(self) -> bool:
        """Always False: a message to itself can follow."""
        return False

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = "", ""
        for before, tag in self._scanner.push(text, final=final):
            if self._header is not None:
                content += self._start(self._header + before, tag)
            elif self._to_self:
                reasoning += before
            else:
                content += before
            if tag in ENDS:
                self._header, self._scanner.tags = "", (MESSAGE,)
        if final and self._header:
            content += "" if HEADER.fullmatch(self._header) else self._header
            self._header = ""
        return reasoning, content

    def _start(self, header: str, tag: str) -> str:
        """The header as content: "" unless it is none."""
        self._header = header = bounded_space(header)
        if not tag and may_be_header(header):
            return ""
        self._header, self._scanner.tags = None, ENDS
        recipient = HEADER.fullmatch(header)
        self._to_self = recipient is not None and recipient[1] == "self"
        return "" if recipient else header + tag

"""Parses reasoning in OpenAI's harmony format (gpt-oss): messages in channels, of which `analysis` is
reasoning.

A message to a function (`to=functions.…`) is passed on unchanged, for the parser of tool calls; one to a tool
that gpt-oss has of its own is reasoning.  A header that is broken or cut is markup, and no content.
"""

from __future__ import annotations

import re

from pipelines.nodes.text.markup.tags import TagScanner, overlap
from pipelines.nodes.text.parsers.reasoning.headers import LONGEST_HEADER, bounded_space, may_be_header
from pipelines.nodes.text.parsers.reasoning.think import Span, Unopened

CHANNEL, MESSAGE, START, CALL = "<|channel|>", "<|message|>", "<|start|>", "<|call|>"
ENDS = ("<|end|>", CALL, "<|return|>")
IN_HEADER = (MESSAGE, *ENDS)
IN_TEXT = (*ENDS, START, CHANNEL, MESSAGE)
HEADER = re.compile(r"(?<!\s)\s*+(?:assistant)?+\s*+(?:to=\S*\s*)?(?:<\|channel\|>|<\|start\|>)")
TO_ITS_CHANNEL = re.compile(r".*<\|(?:channel|start)\|>\s*+\w*+", re.DOTALL)
RECIPIENT = re.compile(r"\bto=([^\s<]+)")
ANALYSIS = Span(f"{CHANNEL}analysis{MESSAGE}", f"<|end|>{START}assistant{CHANNEL}final{MESSAGE}")
"""Reasoning that the answer follows directly."""


def span(prompt_text: str) -> Span | None:
    return ANALYSIS


class Harmony:
    """One choice's messages split in two: header, text, end, and so on.  An end may be missing.

    Every message says its channel, whatever the prompt ended with: nothing is unopened.
    """

    def __init__(self, prompt_text: str, unopened: Unopened = "text") -> None:
        self._scanner = TagScanner(*IN_HEADER)
        self._header: str | None = ""  # of the message whose text has not started; None inside a text
        self._is_reasoning = False
        self._passed_on = False

    @property
    def inside(self) -> bool:
        return self._header is None and self._is_reasoning

    @property
    def over(self) -> bool:
        """Always False: a message in any channel can follow."""
        return False

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        reasoning, content = "", ""
        for before, tag in self._scanner.push(text, final=final):
            is_text = self._header is None
            if self._header is not None:
                content += self._start(self._header + before, tag)
            elif self._is_reasoning:
                reasoning += before
            else:
                content += before
            content += self._end(tag) if is_text and tag else ""
        if final and self._header is not None:
            plain, header = _split(self._header)
            content, self._header = content + plain + _without_end(header), ""
        return reasoning, content

    def _start(self, header: str, tag: str) -> str:
        """The header as content: "" unless the message is passed on or this is no header."""
        plain, header = _split(bounded_space(header))
        if not tag and (may_be_header(plain) or _ends_in_marker(plain)):
            self._header = plain + header
            return ""
        if tag in ENDS:
            self._header = ""
            return plain + _without_end(header)
        if not tag and header:
            self._header = header
            return plain
        self._header, self._scanner.tags = None, IN_TEXT
        recipient = RECIPIENT.search(header or plain)
        to = "assistant" if recipient is None else recipient[1]
        self._passed_on = to.startswith("functions.")
        channel = header.rpartition(CHANNEL)[2].strip()
        is_own = to != "assistant" and bool(header)
        self._is_reasoning = not self._passed_on and (is_own or channel.startswith("analysis"))
        return plain + (header + tag if self._passed_on else "")

    def _end(self, tag: str) -> str:
        """The marker as content.  Without an end, the header of the next message ends this one."""
        if tag in (START, CHANNEL, *ENDS):
            self._header, self._scanner.tags = "" if tag in ENDS else tag, IN_HEADER
        if not self._passed_on:
            return ""
        return CALL if tag in (START, CHANNEL) else tag


def _split(text: str) -> tuple[str, str]:
    """Plain text, and the header after it."""
    found = HEADER.search(text)
    return (text[: found.start()], text[found.start() :]) if found else (text, "")


def _ends_in_marker(text: str) -> bool:
    """Whether more text may show that a header begins at its end."""
    return any(overlap(text, marker) for marker in (CHANNEL, START))


def _without_end(header: str) -> str:
    """The answer after a header whose last marker was left out; a short header is cut, and says nothing."""
    is_answer = not header.rpartition(CHANNEL)[2].strip().startswith("analysis")
    return TO_ITS_CHANNEL.sub("", header, count=1) if len(header) > LONGEST_HEADER and is_answer else ""

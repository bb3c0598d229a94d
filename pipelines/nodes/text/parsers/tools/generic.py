"""Replies of models without a form of calls: an object with a response or with calls, as in llama.cpp.

A grammar holds the whole reply to it; a reply that is something else is content as it stands.
"""

from __future__ import annotations

import re

from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.nodes.text.parsers.tools.forced import PLAIN
from pipelines.values.json_strings import JsonString
from pipelines.values.reply_values import ToolCallPiece

GENERIC = "generic"
"""The name in a graph; no graph that Braid writes has it."""
RESPONSE, CALLS = "response", "tool_calls"
HEAD = re.compile(rf'\s*\{{\s*"(?:(?P<response>{RESPONSE})"\s*:\s*"|{CALLS}"\s*:\s*(?=\[))')
MAX_HEAD_CHARS = 64
"""The most characters, white space among them, before the response or the calls."""


class GenericReply:
    """The parser of one choice."""

    def __init__(self) -> None:
        self._head = ""
        self._response: JsonString | None = None
        self._calls: CallFinder | None = None
        self._is_plain = False

    def push(
        self, text: str, *, final: bool = False, is_cut: bool = False
    ) -> tuple[str, list[ToolCallPiece]]:
        if self._is_open:
            self._head += text
            text = self._begin(final)
        if self._response is not None:
            return self._response.push(text), []
        if self._calls is not None:
            return "", self._calls.push(text, final=final, is_cut=is_cut)[1]
        return text, []

    @property
    def _is_open(self) -> bool:
        """Whether it is not known yet what the reply is."""
        return self._response is None and self._calls is None and not self._is_plain

    def _begin(self, final: bool) -> str:
        """What is to be read of the text so far, once it is known what it is."""
        head = self._head
        if start := HEAD.match(head):
            if start["response"]:
                self._response = JsonString()
            else:
                self._calls = CallFinder(PLAIN)
            return head[start.end() :]
        if not final and len(head) < MAX_HEAD_CHARS and head.lstrip()[:1] in ("", "{"):
            return ""
        self._is_plain = True
        return head

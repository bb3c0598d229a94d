"""Tool calls as Hermes and Qwen write them: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.

Knows nothing of reasoning, tokens or the tools that were declared.  A call is shown when it is whole; what
turns out to be no call is content, tags and all, so that no character is lost.
"""

from __future__ import annotations

import json
import uuid

from pipelines.parsers.tags import TagScanner
from pipelines.values import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class Hermes:
    """Finds the calls of one choice.  White space between a call and its neighbours is markup."""

    def __init__(self) -> None:
        self._scanner = TagScanner(OPEN)
        self._body: str | None = None  # text since an open tag
        self._count = 0
        self._blank = ""  # white space that is content only if content follows

    def push(self, text: str, *, final: bool = False) -> tuple[str, list[ToolCall]]:
        content, calls = "", []
        for before, tag in self._scanner.push(text, final=final):
            if self._body is None:
                content += self._content(before)
                if tag:
                    self._open()
                continue
            self._body += before
            if tag:
                content += self._close(calls, CLOSE)
        if final:
            content += self._end(calls)
        return content, calls

    def _open(self) -> None:
        self._body = ""
        self._scanner.tags = (CLOSE,)

    def _close(self, calls: list[ToolCall], tag: str) -> str:
        """Content that the body turns out to be: nothing when it is a call, which joins `calls`."""
        body, self._body = self._body or "", None
        self._scanner.tags = (OPEN,)
        call = self._parse(body)
        if call is None:
            return self._content(OPEN + body + tag)
        calls.append(call)
        self._blank = ""
        return ""

    def _end(self, calls: list[ToolCall]) -> str:
        """The text ended: an unclosed body may still be a whole call."""
        content = self._close(calls, "") if self._body is not None else ""
        if self._count == 0:
            content += self._blank
        self._blank = ""
        return content

    def _content(self, text: str) -> str:
        shown = (self._blank + text).rstrip()
        self._blank = (self._blank + text)[len(shown) :]
        return shown

    def _parse(self, body: str) -> ToolCall | None:
        try:
            value = json.loads(body)
            name, arguments = value["name"], value.get("arguments", value.get("parameters", {}))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return None
        self._count += 1
        text = json.dumps(arguments, ensure_ascii=False)
        return ToolCall(self._count - 1, f"chatcmpl-tool-{uuid.uuid4().hex}", name, text)

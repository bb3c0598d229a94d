"""Parses calls that a grammar restricted to plain JSON: a list of calls, or the arguments of a known tool."""

from __future__ import annotations

from pipelines.nodes.text.parsers.tools.calls import CallBlock, CallSink, Family
from pipelines.nodes.text.parsers.tools.json_calls import objects
from pipelines.values.reply_values import ToolCallPiece

PLAIN = Family((CallBlock("[", objects(needs_arguments=True), bare=True),))
"""A list of objects with name and parameters."""


class ArgumentsOf:
    """Takes the whole text as the arguments of one tool."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = CallSink()
        self._rest = ""  # after the arguments
        self._has_content = False

    def push(
        self, text: str, *, final: bool = False, is_cut: bool = False
    ) -> tuple[str, list[ToolCallPiece]]:
        """A text that is cut ends as any other: all of it is arguments."""
        text = text if self._calls.count else text.lstrip()
        if text and not self._calls.count:
            self._calls.begin(self._name)
        self._rest += self._calls.more(text) or ""
        if final:
            self._calls.end()
        return self._content(), self._calls.take()

    def _content(self) -> str:
        """What follows the arguments; white space alone is none."""
        if not (self._has_content or self._rest.strip()):
            return ""
        content, self._rest, self._has_content = self._rest, "", True
        return content

"""Counts what the parser of tool calls found, as vLLM does: by delta of a stream, else by choice."""

from __future__ import annotations

from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import TOOL_PARSER
from pipelines.telemetry.registry import labelled

OUTCOMES = ("no_tool_call", "tool_call")


class ToolCallCounts:
    """The counts of one request in which tool calls are looked for."""

    def __init__(self, model: str, request_type: str, streams: bool) -> None:
        mode = "streaming" if streams else "non_streaming"
        self._values = [
            labelled(TOOL_PARSER, model, mode, outcome, request_type)._value for outcome in OUTCOMES
        ]
        self._streams = streams
        self._calling: set[int] = set()  # choices with a call

    def add(self, choice: int, has_call: bool) -> None:
        """One more delta of a choice."""
        if self._streams:
            deferred.gain(self._values[has_call])
        elif has_call:
            self._calling.add(choice)

    def ended(self, choice: int) -> None:
        """A choice ended; one that is aborted counts nowhere."""
        if not self._streams:
            deferred.gain(self._values[choice in self._calling])

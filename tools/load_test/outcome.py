"""What became of one request, read from the pieces of its reply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tools.client.event_lines import END
from tools.client.http_client import error_message
from tools.client.timed_reply import timed_events


class Outcome(msgspec.Struct):
    """`due_s` and `sent_s` are from the start of the load, `arrivals_s` of tokens from when it was due.

    `failure` is its kind, empty where the whole reply came.  Tokens are counted by the server; where it does
    not, an event counts for one.
    """

    due_s: float
    sent_s: float
    arrivals_s: list[float] = []
    end_s: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    finish_reason: str = ""
    failure: str = ""
    message: str = ""

    @property
    def ok(self) -> bool:
        return not self.failure


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    def has_tokens(self) -> bool:
        if self.delta is None:
            return bool(self.text)
        shown = self.delta
        return bool(shown.content or shown.reasoning_content or shown.reasoning or shown.tool_calls)


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


def read_stream(outcome: Outcome, pieces: Iterable[tuple[float, bytes]]) -> None:
    """Fill in what the events of a reply say; pieces have the seconds at which they came."""
    ended = False
    for at_s, text in timed_events(pieces):
        if ended := text == END:
            break
        try:
            _read(outcome, at_s, _decode(text))
        except msgspec.MsgspecError as error:
            outcome.failure, outcome.message = "not an event", f"{error}: {text[:100]!r}"
            return
        if outcome.failure:
            outcome.message = error_message(200, text)
            return
    outcome.output_tokens = outcome.output_tokens or len(outcome.arrivals_s)
    if not ended and not outcome.finish_reason:
        outcome.failure = "ended before its end"
    elif not outcome.arrivals_s:
        outcome.failure = "no tokens"


def _read(outcome: Outcome, at_s: float, event: _Event) -> None:
    if event.error:
        outcome.failure = "error in the stream"
    if event.usage:
        outcome.prompt_tokens = event.usage.prompt_tokens
        outcome.output_tokens = event.usage.completion_tokens
    for choice in event.choices:
        outcome.finish_reason = choice.finish_reason or outcome.finish_reason
    if any(choice.has_tokens() for choice in event.choices):
        outcome.arrivals_s.append(at_s)

"""The pieces of one reply → the events of its response, in the order in which clients expect them.

The whole response is what the last event carries, so a stream and a whole reply cannot differ.  Knows
nothing of HTTP, of the store or of where pieces come from.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pipelines.errors import BraidError, EngineError
from pipelines.values import ReplyUpdate, TextLogprob, ToolCallPiece
from server.generation.replies.update_stages import outside
from server.responses.output import Event, FunctionCall, Message, OutputItem, Thought, event
from server.responses.reply import error_of
from server.responses.schema import IncompleteDetails, Response
from server.responses.usage import Counts

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why the model ended → why the response is incomplete."""


def failure(response: Response, error: BraidError, number: int) -> list[Event]:
    """The last two events of a response that failed, the first of them numbered `number`."""
    found = error_of(error)
    response.error, response.status = found, "failed"
    flat = {"type": "error", "code": found.code, "message": found.message, "param": error.field}
    last = event("failed", response=response.plain())
    return [{**flat, "sequence_number": number}, {**last, "sequence_number": number + 1}]


class Telling:
    """Tells one response from its first event to its last; `response` is it so far."""

    def __init__(
        self, response: Response, num_input: int, shows_reasoning: bool = True, parallel_calls: bool = True
    ) -> None:
        self.response = response
        self.ended = False
        self._counts = Counts(num_input)
        self._shows_reasoning = shows_reasoning
        self._parallel_calls = parallel_calls
        self._number = 0
        self._open: OutputItem | None = None
        self._space = ""  # white space that may turn out to stand between items
        self._logprobs: list[TextLogprob] = []  # of tokens whose text has not come yet

    def begin(self) -> list[Event]:
        """The events before the first piece."""
        told = [self._numbered(self._snapshot("created"))]
        if self.response.status == "queued":
            told.append(self._numbered(self._snapshot("queued")))
            self.response.status = "in_progress"
        told.append(self._numbered(self._snapshot("in_progress")))
        return told

    def push(self, update: ReplyUpdate) -> list[Event]:
        """The events of one piece; with the last piece the end of the response is among them."""
        if not isinstance(update, ReplyUpdate):  # a chat graph always gives these
            raise TypeError(f"a chat graph gave {type(update).__name__}")
        self._counts.add(update)
        self._logprobs += outside(update.logprobs, update.thought)
        return [self._numbered(told) for told in self._told(update)]

    def fail(self, error: BraidError) -> list[Event]:
        """The events of a response that cannot go on."""
        if self.ended:
            return []
        self._stop()
        self.response.usage, self.ended = self._counts.usage(), True
        return failure(self.response, error, self._number)

    def cancel(self) -> None:
        """Somebody wants no more of it; clients of its stream are told nothing."""
        self._stop()
        self.response.status, self.ended = "cancelled", True

    def _stop(self) -> None:
        """What is being said stays as far as it came; no event says so."""
        for _ in self._close("incomplete"):
            pass

    def _told(self, update: ReplyUpdate) -> Iterator[Event]:
        """The call that is being made ends before anything else is said."""
        calls = [piece for piece in update.tool_calls if self._parallel_calls or piece.index == 0]
        while calls and self._goes_on(calls[0]):
            yield from self._call(calls.pop(0))
        if update.reasoning:
            yield from self._think(update.reasoning)
        if update.content:
            yield from self._say(update.content)
        for piece in calls:
            yield from self._call(piece)
        if update.finish is not None:
            yield from self._finish(update.finish)

    def _think(self, text: str) -> Iterator[Event]:
        if not self._shows_reasoning:
            return
        thought = self._open
        if not isinstance(thought, Thought):
            thought = Thought(self._next_index())
            yield from self._next(thought)
        yield thought.say(text)

    def _say(self, text: str) -> Iterator[Event]:
        """White space alone begins no message: models put some between reasoning, text and calls."""
        message = self._open
        if not isinstance(message, Message):
            self._space += text
            if text.isspace():
                return
            message, text = Message(self._next_index()), self._space
            yield from self._next(message)
        yield message.say(text, self._take_logprobs())

    def _call(self, piece: ToolCallPiece) -> Iterator[Event]:
        self._take_logprobs()
        if piece.name is not None:
            yield from self._next(FunctionCall(self._next_index(), piece.index, piece.id or "", piece.name))
        call = self._open
        if not isinstance(call, FunctionCall) or call.index != piece.index:
            raise EngineError("a piece came of a call that is not the one being made")
        if piece.arguments:
            yield call.say(piece.arguments)

    def _goes_on(self, piece: ToolCallPiece) -> bool:
        call = self._open
        return piece.name is None and isinstance(call, FunctionCall) and call.index == piece.index

    def _finish(self, why: str) -> Iterator[Event]:
        if self._space and self._next_index() == 0:
            message, text = Message(0), self._space
            yield from self._next(message)
            yield message.say(text, self._take_logprobs())
        elif isinstance(self._open, Message) and self._logprobs:  # of the end token, or of held-back text
            yield self._open.say("", self._take_logprobs())
        if why == "abort":
            self.response.error = error_of(EngineError("the reply was aborted"))
        reason = INCOMPLETE.get(why)
        yield from self._close("incomplete" if reason or why == "abort" else "completed")
        if reason:
            self.response.incomplete_details = IncompleteDetails(reason=reason)
        yield self._end("incomplete" if reason else "failed" if why == "abort" else "completed")

    def _next(self, item: OutputItem) -> Iterator[Event]:
        yield from self._close("completed")
        self._open, self._space = item, ""
        yield from item.begin()

    def _close(self, status: str) -> Iterator[Event]:
        if self._open is not None:
            yield from self._open.end(status)
            self.response.output = [*self.response.output, self._open.item]
            self._open = None

    def _end(self, status: Any) -> Event:
        self.ended = True
        self.response.status = status
        self.response.usage = self._counts.usage()
        if status == "completed":
            self.response.completed_at = int(time.time())
        return self._snapshot(status)

    def _take_logprobs(self) -> list[TextLogprob]:
        taken, self._logprobs = self._logprobs, []
        return taken

    def _next_index(self) -> int:
        return len(self.response.output) + (self._open is not None)

    def _snapshot(self, kind: str) -> Event:
        return event(kind, response=self.response.plain())

    def _numbered(self, told: Event) -> Event:
        told["sequence_number"] = self._number
        self._number += 1
        return told

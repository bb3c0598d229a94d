"""Converts the updates of one reply to the events of its response, in the order that clients expect.

The last event carries the complete response, so a stream and a whole reply cannot differ.  Does not depend
on HTTP or on the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from pipelines.base.errors import BraidError, EngineError
from pipelines.values.reply_values import ReplyUpdate, TextLogprob, ToolCallPiece
from pipelines.worker.spent import NOTHING_SPENT, Spent
from server.apis.generation.replies.update_stages import outside
from server.apis.responses.output_items import (
    OUTPUT_CALLS,
    Event,
    OutputCall,
    OutputCompaction,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    make_event,
)
from server.apis.responses.reply import response_error
from server.apis.responses.reply_models import IncompleteDetails, Response
from server.apis.responses.token_usage import ResponseTokenCounter
from server.apis.responses.tool_table import ToolTable

ALL, COMPACTION, NOTHING = "all", "compaction", "nothing"
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reason of the model → the reason of an incomplete response."""


def failure_events(response: Response, error: BraidError, number: int) -> list[Event]:
    """Mark the response as failed; its last two events, the first of them numbered `number`."""
    reported = response_error(error)
    response.error, response.status = reported, "failed"
    flat = {"type": "error", "code": reported.code, "message": reported.message, "param": error.field}
    last = make_event("failed", response=response.to_dict())
    return [{**flat, "sequence_number": number}, {**last, "sequence_number": number + 1}]


class ResponseEvents:
    """The events of one response, from its first to its last; `response` is its current state.

    `tools` are those that may be called.  It `shows` ALL of the reply, a COMPACTION of its text, or NOTHING.
    """

    def __init__(
        self,
        response: Response,
        num_input: int,
        shows_reasoning: bool = True,
        parallel_calls: bool = True,
        tools: ToolTable | None = None,
        shows: str = ALL,
        others: Callable[[], Spent] = lambda: NOTHING_SPENT,
    ) -> None:
        self.response = response
        self._tools = tools or ToolTable()
        self._shows = shows
        self.trace: Callable[[], dict[str, Any]] | None = None
        """Gives the path of the request, where the client asks for it."""
        self.ended = False
        self._counts = ResponseTokenCounter(num_input, others)
        self._shows_reasoning = shows_reasoning
        self._parallel_calls = parallel_calls
        self._number = 0
        self._open: OutputItem | None = None
        self._space = ""  # white space that is dropped if another item follows
        self._logprobs: list[TextLogprob] = []  # of tokens whose text has not arrived yet

    def start(self) -> list[Event]:
        """The events before the first update."""
        events = [self._numbered(self._snapshot("created"))]
        if self.response.status == "queued":
            events.append(self._numbered(self._snapshot("queued")))
            self.response.status = "in_progress"
        events.append(self._numbered(self._snapshot("in_progress")))
        return events

    def push(self, update: ReplyUpdate) -> list[Event]:
        """The events of one update; those of the last update include the end of the response."""
        if not isinstance(update, ReplyUpdate):  # the result type of every chat graph
            raise TypeError(f"a chat graph returned {type(update).__name__}")
        self._counts.add(update)
        if update.piece.logprobs is not None:
            self._logprobs += outside(update.piece.logprobs.tokens, update.is_reasoning)
        return [self._numbered(event) for event in self._events(update)]

    def fail(self, error: BraidError) -> list[Event]:
        """The events of a response that failed; none when it has already ended."""
        if self.ended:
            return []
        self._stop()
        self.response.usage, self.ended = self._counts.usage(), True
        return failure_events(self.response, error, self._number)

    def cancel(self) -> None:
        """End the response as cancelled, without events."""
        self._stop()
        self.response.status, self.ended = "cancelled", True

    def _stop(self) -> None:
        """Close the open item as incomplete and drop its events."""
        for _ in self._close("incomplete"):
            pass

    def _events(self, update: ReplyUpdate) -> Iterator[Event]:
        if self._shows == ALL:
            yield from self._whole_reply(update)
        elif self._shows == COMPACTION:
            yield from self._summary(update)
        elif update.piece.finish is not None:
            yield self._end("completed")

    def _whole_reply(self, update: ReplyUpdate) -> Iterator[Event]:
        """The open function call is continued first, then reasoning, content and new calls follow."""
        calls = [piece for piece in update.tool_calls if self._parallel_calls or piece.index == 0]
        while calls and self._continues_call(calls[0]):
            yield from self._add_call(calls.pop(0))
        if update.reasoning:
            yield from self._add_reasoning(update.reasoning)
        if update.content:
            yield from self._add_content(update.content)
        if isinstance(self._open, OutputMessage):
            yield from self._open.cite(update.citations)
        for piece in calls:
            yield from self._add_call(piece)
        if update.piece.finish is not None:
            yield from self._finish(update.piece.finish)

    def _add_reasoning(self, text: str) -> Iterator[Event]:
        if not self._shows_reasoning:
            return
        reasoning = self._open
        if not isinstance(reasoning, OutputReasoning):
            reasoning = OutputReasoning(self._next_index())
            yield from self._open_item(reasoning)
        yield reasoning.add(text)

    def _add_content(self, text: str) -> Iterator[Event]:
        """White space alone opens no message: models write some between reasoning, text and calls."""
        message = self._open
        if not isinstance(message, OutputMessage):
            self._space += text
            if text.isspace():
                return
            message, text = OutputMessage(self._next_index()), self._space
            yield from self._open_item(message)
        yield message.add(text, self._take_logprobs())

    def _summary(self, update: ReplyUpdate) -> Iterator[Event]:
        if self._open is None:
            yield from self._open_item(OutputCompaction(0))
        if isinstance(self._open, OutputCompaction):
            self._open.add(update.content)
        if update.piece.finish is not None:
            yield from self._finish(update.piece.finish)

    def _add_call(self, piece: ToolCallPiece) -> Iterator[Event]:
        self._take_logprobs()
        if piece.name is not None:
            tool = self._tools.get(piece.name)
            call_item = OUTPUT_CALLS[tool.kind](self._next_index(), piece.index, piece.id or "", tool)
            yield from self._open_item(call_item)
        call = self._open
        if not isinstance(call, OutputCall) or call.index != piece.index:
            raise EngineError("the parser continued a function call that is not open")
        if piece.arguments:
            yield from call.add(piece.arguments)

    def _continues_call(self, piece: ToolCallPiece) -> bool:
        call = self._open
        return piece.name is None and isinstance(call, OutputCall) and call.index == piece.index

    def _finish(self, finish_reason: str) -> Iterator[Event]:
        if self._space and self._next_index() == 0:
            message, text = OutputMessage(0), self._space
            yield from self._open_item(message)
            yield message.add(text, self._take_logprobs())
        elif (
            isinstance(self._open, OutputMessage) and self._logprobs
        ):  # of the end token or of held-back text
            yield self._open.add("", self._take_logprobs())
        if finish_reason == "abort":
            self.response.error = response_error(EngineError("the reply was aborted"))
        reason = INCOMPLETE.get(finish_reason)
        yield from self._close("incomplete" if reason or finish_reason == "abort" else "completed")
        if reason:
            self.response.incomplete_details = IncompleteDetails(reason=reason)
        yield self._end("incomplete" if reason else "failed" if finish_reason == "abort" else "completed")

    def _open_item(self, item: OutputItem) -> Iterator[Event]:
        yield from self._close("completed")
        self._open, self._space = item, ""
        yield from item.start()

    def _close(self, status: str) -> Iterator[Event]:
        if self._open is not None:
            yield from self._open.end(status)
            self.response.output = [*self.response.output, self._open.item]
            self._open = None

    def _end(self, status: Any) -> Event:
        self.ended = True
        self.response.status = status
        self.response.usage = self._counts.usage()
        if self.trace is not None:
            self.response.trace = self.trace()
        if status == "completed":
            self.response.completed_at = int(time.time())
        return self._snapshot(status)

    def _take_logprobs(self) -> list[TextLogprob]:
        taken, self._logprobs = self._logprobs, []
        return taken

    def _next_index(self) -> int:
        return len(self.response.output) + (self._open is not None)

    def _snapshot(self, kind: str) -> Event:
        return make_event(kind, response=self.response.to_dict())

    def _numbered(self, event: Event) -> Event:
        event["sequence_number"] = self._number
        self._number += 1
        return event

"""Replies of one call that come whole: each is waited for, and what is made of it may ask for more."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from time import monotonic
from typing import Any

from pipelines.base.element_types import num_bytes
from pipelines.telemetry.request_trace import CallTrace, EngineTime
from pipelines.values.node_values import Tensors
from pipelines.values.stream_values import Arrived, Deferred, Stream
from pipelines.worker.choices import Choices
from pipelines.worker.node_clock import NodeClock
from pipelines.worker.submissions import Submission, TensorSubmission, TokenSubmission
from pipelines.worker.submitted import Submitted

LARGE_REPLY_BYTES = 1 << 20
"""What is made of a larger reply is made off the event loop."""

PARTS_AHEAD = 2
"""Parts of a reply that are with the engine at a time: one is computed while another is read."""


class Replies:
    """Every method raises the BraidError of an engine that refused, failed or went away.

    Once it `is_closed` nothing is made of a reply any more.
    """

    def __init__(self, submitted: Submitted, clock: NodeClock, trace: CallTrace) -> None:
        self._submitted = submitted
        self._clock = clock
        self._trace = trace
        self.is_closed = False

    async def value(self, deferred: Deferred[Any]) -> Any:
        """The value, after all that is made of it; None when the call was closed from outside."""
        known = isinstance(deferred.source, Arrived)
        value = deferred.source.value if known else await self._reply(deferred.source)
        if value is None:
            return None
        is_large = not known and sum(map(num_bytes, value.values())) > LARGE_REPLY_BYTES
        for make in deferred.makers:
            apply = self._clock.apply
            takes_long = is_large or getattr(make, "takes_long", False)
            value = await asyncio.to_thread(apply, make, value) if takes_long else apply(make, value)
            if self.is_closed:
                return None
            if isinstance(value, Deferred):
                value = await self.value(value)
            if value is None:
                return None
        return value

    async def _reply(self, submission: TensorSubmission) -> Tensors | None:
        """The tensors that an engine replies with; None as for `value`."""
        if not await self.sent(submission):
            return None
        try:
            reply = await submission.reply.get()
        finally:
            times = EngineTime(submission.path, "run", submission.sent_s, monotonic())
            self._trace.engines.append(times)
        return None if reply is None else Tensors(reply)

    async def next_part(self, waiting: deque[Deferred[Any]]) -> Any:
        """The first value of those that wait, while the next ones are computed; None as for `value`."""
        for each in islice(waiting, PARTS_AHEAD):
            if each.source.request_id is None:
                self._submitted.send(each.source)
        part = waiting.popleft()
        value = await self.value(part)
        if value is not None:
            self._submitted.remove(part.source)
        return value

    async def started(self, stream: Stream[Any], choices: Choices) -> Stream[Any] | None:
        """The stream of a submission that was sent; None when the call was closed from outside."""
        while isinstance(stream.source, Deferred):
            first = await self.value(stream.source)
            if first is None:
                return None
            stream = Stream(first.source, (*first.makers, *stream.makers))
            if isinstance(stream.source, TokenSubmission):
                self._submitted.send(stream.source)
                choices.begin_stream(stream.source.num_choices)
        return stream if await self.sent(stream.source) else None

    async def sent(self, submission: Submission) -> bool:
        """Send a submission when its images are there; False where the call was closed from outside."""
        if submission.images is not None and not submission.is_ready:
            outputs = await self.value(submission.images.embeddings)
            if outputs is None:
                return False
            submission.held_images = outputs.held.request_id
        if submission.request_id is None:
            self._submitted.send(submission)
        return True

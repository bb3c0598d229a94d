"""One request in flight: what it submits, what comes back, its end.  Does not depend on HTTP or graphs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import Any, TypeVar

from pipelines.base.element_types import num_bytes
from pipelines.base.errors import BraidError
from pipelines.nodes.request_plan import RequestPlan
from pipelines.telemetry.deferred import defer
from pipelines.telemetry.node_work import count_nodes
from pipelines.telemetry.request_timing import RequestTiming
from pipelines.telemetry.request_trace import CallTrace, EngineTime, RequestTrace, Sampling
from pipelines.telemetry.tool_calls import ToolCallCounts
from pipelines.values.node_values import (
    Deferred,
    Held,
    PlacedImage,
    PooledOutputs,
    Series,
    Stream,
    Tensors,
    Tokens,
    TokenUpdate,
)
from pipelines.wire.address import EngineAddress
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.update_queue import UpdateQueue
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.node_clock import NodeClock
from pipelines.worker.submissions import Origin, Submission, TensorSubmission, TokenSubmission
from pipelines.worker.used_adapter import UsedAdapter

T = TypeVar("T")

LARGE_REPLY_BYTES = 1 << 20
"""What is made of a larger reply is made off the event loop."""

PARTS_AHEAD = 2
"""Parts of a reply that are with the engine at a time: one is computed while another is read."""


class Call:
    """One request in flight.  It owns what it submitted: `close` aborts whatever has not ended.

    Submissions whose inputs are known when the nodes have run are sent by `start`; a submission made from
    another one's reply is sent once that reply has arrived.  `_open` holds the choices of the reply that have
    not ended.  `close` may be called at any time, and more than once.
    """

    def __init__(
        self,
        model: str,
        request: Any,
        plan: RequestPlan,
        client: RequestClient,
        tenant: str = "",
        adapter: UsedAdapter | None = None,
        trace: RequestTrace | None = None,
    ) -> None:
        """`trace` is of the request that the call is a part of."""
        self.model = model
        self.request = request
        self.plan = plan
        self.result: Any = None
        self.held: dict[str, Any] = {}  # the values of lines whose outputs the host holds
        self._client = client
        self._tenant = tenant
        self._adapter = adapter
        self._submissions: list[Submission] = []
        self._open: set[int] = set()
        self._closed = False
        self.clock = NodeClock()
        self._timing = RequestTiming(model)
        self._name = "" if trace is None else trace.id
        self._trace = CallTrace(model, self.clock.works, self._timing)
        if trace is not None:
            trace.calls.append(self._trace)
        self._tool_calls: ToolCallCounts | None = None

    # --- for nodes

    def submit(
        self,
        address: EngineAddress,
        prompts: list[Tokens],
        params: SamplingParams,
        context: Held | None = None,
        images: Deferred[PooledOutputs] | None = None,
    ) -> Stream[TokenUpdate]:
        """Prepare prompts for a generative engine: `request.n` choices for each of them."""
        request, held = self.request, None if context is None else context.request_id
        submission = TokenSubmission(
            *(address, prompts, params, request.n, request.cache_salt, self._tenant),
            context=held,
            images=images,
            adapter=self._number_for(address.model),
            update_queue=UpdateQueue(whole=params.is_background and not (request.streams or request.stop)),
            origin=self._origin,
        )
        self._submissions.append(submission)
        return Stream(submission)

    @property
    def _origin(self) -> Origin:
        return Origin(self._name, self.clock.path)

    def _number_for(self, model: str) -> int:
        """The load number of the adapter that a model is run with: a graph may name other models too."""
        return self._adapter.number if self._adapter is not None and self._adapter.model == model else 0

    def infer(
        self,
        address: EngineAddress,
        inputs: Tensors,
        outputs: list[str] | None = None,
        text_lengths: Sequence[int] | None = None,
        hold: bool = False,
        held: Mapping[str, Held] | None = None,
        images: Deferred[PooledOutputs] | None = None,
        placed: Sequence[Sequence[PlacedImage]] = (),
    ) -> Deferred[Tensors]:
        """Prepare tensors for an engine that replies once; `text_lengths` are the tokens of each text."""
        requests = {name: each.request_id for name, each in (held or {}).items()}
        submission = TensorSubmission(
            *(address, inputs, outputs, text_lengths or (), self._tenant),
            hold=hold,
            held=requests,
            images=images,
            placed=placed,
            adapter=self._number_for(address.model),
            origin=self._origin,
        )
        self._submissions.append(submission)
        return Deferred(submission)

    # --- for endpoints

    @property
    def prompt_lengths(self) -> list[int]:
        """Tokens of each prompt or text, as they were first submitted, and of each image that is no part of a
        prompt; of a reply in parts those of each.
        """
        if isinstance(self.result, Series):
            return [length for each in self._submissions for length in each.text_lengths]
        texts: Sequence[int] = ()
        images: list[int] = []
        for each in self._submissions:
            if _has_images(each):
                images += each.text_lengths
            else:
                texts = texts or each.text_lengths
        return [*texts, *images]

    @property
    def image_lengths(self) -> list[int]:
        """Tokens of each image that is no part of a prompt."""
        return [n for each in self._submissions if _has_images(each) for n in each.text_lengths]

    @property
    def num_image_tokens(self) -> int:
        """Tokens of all images of a request for vectors."""
        placed = (each.placed for each in self._submissions if isinstance(each, TensorSubmission))
        return sum(self.image_lengths) + sum(
            one.num_tokens for each in placed for text in each for one in text
        )

    @property
    def prompt_ids(self) -> list[list[int]]:
        """Token ids of each prompt, as they were first submitted."""
        return next((each.text_ids for each in self._submissions if each.text_lengths), [])

    @property
    def prompt_text(self) -> str:
        """The text of the first prompt of a generative engine, as far as it is known."""
        return next((prompt.prompt_text for prompt in self._prompts), "")

    @property
    def _prompts(self) -> list[Tokens]:
        submissions = (each for each in self._submissions if isinstance(each, TokenSubmission))
        return next((each.prompts for each in submissions), [])

    def count_tool_calls(self, request_type: str, streams: bool) -> None:
        """Count deltas, or without `streams` choices, with and without tool calls, if any are looked for."""
        if self.plan.tool_calls is not None:
            self._tool_calls = ToolCallCounts(self.model, request_type, streams)

    def start(self) -> None:
        """Send what is ready to its engines.  Raises Unavailable without one; then nothing runs."""
        if self._closed:
            raise ValueError("this call was closed")
        try:
            for submission in self._submissions[: PARTS_AHEAD if isinstance(self.result, Series) else None]:
                if submission.is_ready:
                    self._send(submission)
        except BraidError:
            self.close()
            raise
        lengths = [] if isinstance(self.result, Stream) else self.prompt_lengths
        num_choices = _first_submission(self.result).num_choices
        if isinstance(self.result, Deferred):
            num_choices = max(num_choices, len(lengths))
        self._open = set(range(num_choices))
        if lengths:
            self._timing.read(lengths)

    async def updates(self) -> AsyncIterator[list[tuple[int, Any]]]:
        """What arrived since the last iteration: (choice, update) pairs in order, until every choice ended.

        Raises the request's BraidError when a step failed or the engine went away.
        """
        try:
            stream = await self._started(self.result)
            if stream is None:
                return  # closed from outside
            submission: TokenSubmission = stream.source
            chains = [self.clock.chain(stream, submission.choice(i)) for i in range(submission.num_choices)]
            while self._open:
                batch = await submission.update_queue.get()
                if not batch:
                    return  # closed from outside
                yield [
                    (update.choice, self._push(chains[update.choice], update, submission))
                    for update in batch
                    if update.choice in self._open
                ]
        except BraidError:
            self._fail()
            raise

    async def answer(self) -> Any:
        """The reply of a graph whose reply comes whole; None when the call was closed from outside.

        Raises the request's BraidError when the models refused it, failed or went away.
        """
        reply = await self.value(self.result)
        if reply is not None and self._open:
            self._timing.completed(len(self._open), "stop")
            self._open.clear()
        return reply

    async def value(self, deferred: Deferred[T]) -> T | None:
        """What a reply left to be read; None when the call was closed from outside.  Raises as `answer`."""
        try:
            found: T | None = await self._resolved(deferred)
        except BraidError:
            self._fail()
            raise
        return found

    async def parts(self) -> AsyncIterator[Any]:
        """The parts of the reply in order, each once it has arrived; its memory is freed when it was read.

        Ends early when the call was closed from outside.  Raises the request's BraidError.
        """
        waiting, self.result = deque(self.result.parts), None
        try:
            while waiting and not self._closed:
                for each in islice(waiting, PARTS_AHEAD):
                    if each.source.request_id is None:
                        self._send(each.source)
                part = waiting.popleft()
                value = await self._resolved(part)
                if value is None:
                    return
                self._submissions.remove(part.source)
                yield value
        except BraidError:
            self._fail()
            raise
        if self._open and not self._closed:
            self._timing.completed(len(self._open), "stop")
            self._open.clear()

    def close(self) -> None:
        """Abort what has not ended; its blocks are free within a step."""
        if not self._closed:
            defer(self._count_nodes)
        self._closed = True
        self._end_open("abort")
        self._abort()

    def _count_nodes(self) -> None:
        model = self.model if self._adapter is None else self._adapter.model
        count_nodes(model, self.clock.works)

    # --- submissions

    def _send(self, submission: Submission) -> None:
        submission.send(self._client)
        submission.sent_s = monotonic()
        if isinstance(submission, TokenSubmission):
            lengths, params = submission.text_lengths, submission.params
            self._timing.started(lengths, submission.n, params.max_tokens)
            self._trace.generates = submission.origin.path
            self._trace.sampling = Sampling(params.max_tokens, params.temperature, params.top_p)

    async def _started(self, stream: Stream[Any]) -> Stream[Any] | None:
        """The stream of a submission that was sent; None when the call was closed from outside."""
        while isinstance(stream.source, Deferred):
            first = await self._resolved(stream.source)
            if first is None:
                return None
            stream = Stream(first.source, (*first.makers, *stream.makers))
            if isinstance(stream.source, TokenSubmission):
                self._send(stream.source)
                self._open = set(range(stream.source.num_choices))
        return stream if await self._sent(stream.source) else None

    async def _sent(self, submission: Submission) -> bool:
        """Send a submission when its images are there; False where the call was closed from outside."""
        if submission.images is not None and not submission.is_ready:
            rows = await self._resolved(submission.images)
            if rows is None:
                return False
            submission.held_images = rows.held.request_id
        if submission.request_id is None:
            self._send(submission)
        return True

    async def _resolved(self, deferred: Deferred[Any]) -> Any:
        """The value, after all that is made of it; None when the call was closed from outside."""
        submission: TensorSubmission = deferred.source
        if not await self._sent(submission):
            return None
        try:
            reply = await submission.reply.get()
        finally:
            times = EngineTime(submission.origin.path, "run", submission.sent_s, monotonic())
            self._trace.engines.append(times)
        if reply is None:
            return None
        value: Any = Tensors(reply)
        is_large = sum(map(num_bytes, value.values())) > LARGE_REPLY_BYTES
        for make in deferred.makers:
            apply = self.clock.apply
            value = await asyncio.to_thread(apply, make, value) if is_large else apply(make, value)
            if self._closed:
                return None
            if isinstance(value, Deferred):
                value = await self._resolved(value)
            if value is None:
                return None
        return value

    def _abort(self) -> None:
        """End every submission that was sent, and what the host holds; what has ended is left alone."""
        for submission in self._submissions:
            submission.end(self._client)

    # --- choices

    def _push(self, chain: Callable[[Any], Any], update: TokenUpdate, submission: TokenSubmission) -> Any:
        choice, engine_ended = update.choice, update.piece.finish is not None
        if update.piece.prefill_s is not None:
            self._timing.prefilled(choice, update.piece.prefill_s, update.piece.num_cached)
        out = chain(update)
        self._timing.tokens(choice, out.piece.num_tokens)
        if self._tool_calls is not None:
            self._tool_calls.add(choice, bool(out.tool_calls))
        if out.piece.finish is not None:
            self._end(choice, out.piece.finish)
            if not engine_ended and submission.request_id is not None:  # a stage ended it: a stop string
                self._client.abort(submission.request_id, choice)
        return out

    def _end(self, choice: int, finish: str) -> None:
        self._open.discard(choice)
        self._timing.ended(choice, finish)
        if self._tool_calls is not None:
            self._tool_calls.ended(choice)

    def _fail(self) -> None:
        self._end_open("error")
        self._abort()

    def _end_open(self, finish: str) -> None:
        """Nothing more comes for the choices that have not ended."""
        if not self._open:
            return
        if isinstance(self.result, Stream):
            for choice in sorted(self._open):
                self._timing.ended(choice, finish)
        else:
            self._timing.completed(len(self._open), finish)
        self._open.clear()


def _has_images(submission: Submission) -> bool:
    return isinstance(submission, TensorSubmission) and submission.has_images


def _first_submission(value: Stream[Any] | Deferred[Any]) -> Submission:
    """What a value begins with; of a later call it may be an earlier one's."""
    source: Any = value.source
    while isinstance(source, Deferred):
        source = source.source
    submission: Submission = source
    return submission

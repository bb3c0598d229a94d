"""One request in flight: what it submits, what comes back, its end.  Does not depend on HTTP or graphs."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

from pipelines.base.errors import BraidError
from pipelines.nodes.request_plan import RequestPlan
from pipelines.telemetry.deferred import defer
from pipelines.telemetry.node_work import count_nodes
from pipelines.telemetry.request_timing import RequestTiming
from pipelines.telemetry.request_trace import CallTrace, NotesCalls
from pipelines.values.node_values import Held, Tensors, Tokens
from pipelines.values.stream_values import Deferred, Series, Stream, StreamChoice
from pipelines.values.text_images import TextImages
from pipelines.wire.address import EngineAddress
from pipelines.wire.messages import TokenUpdate
from pipelines.wire.requests import Origin, Submit, SubmitTensors, TokenRequest
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.update_queue import UpdateQueue
from pipelines.worker.choices import Choices
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.node_clock import NodeClock
from pipelines.worker.replies import PARTS_AHEAD, Replies
from pipelines.worker.spent import NOTHING_SPENT, Spent
from pipelines.worker.submissions import Submission, TensorSubmission, TokenSubmission
from pipelines.worker.submitted import Submitted
from pipelines.worker.used_adapter import UsedAdapter

T = TypeVar("T")


class Call:
    """One request in flight.  It owns what it submitted: `close` aborts whatever has not ended.

    Submissions whose inputs are known when the nodes have run are sent by `start`; a submission made from
    another one's reply is sent once that reply has arrived.  `close` may be called at any time, and more than
    once.
    """

    is_composed = False

    def __init__(
        self,
        model: str,
        request: Any,
        plan: RequestPlan,
        client: RequestClient,
        tenant: str = "",
        adapter: UsedAdapter | None = None,
        trace: NotesCalls | None = None,
    ) -> None:
        """`trace` is of the request that the call is a part of."""
        self.model = model
        self.request = request
        self.plan = plan
        self.result: Any = None
        self.held: dict[str, Any] = {}  # the values of lines whose outputs the host holds
        self.clock = NodeClock()
        self._adapter = adapter
        self._origin = Origin(name="" if trace is None else trace.id, tenant=tenant)
        own_trace = CallTrace(model, self.clock.works, RequestTiming(model))
        if trace is not None:
            trace.add(own_trace)
        self._choices = Choices(client, own_trace)
        self._submitted = Submitted(client, self._choices)
        self._replies = Replies(self._submitted, self.clock, own_trace)

    # --- for nodes

    def submit(
        self,
        address: EngineAddress,
        prompts: list[Tokens],
        params: SamplingParams,
        context: Held | None = None,
        images: TextImages | None = None,
    ) -> Stream[TokenUpdate]:
        """Prepare prompts for a generative engine: `request.n` choices for each of them."""
        request = self.request
        message = Submit(
            address,
            TokenRequest(
                prompts=[prompt.ids for prompt in prompts],
                params=params,
                n=request.n,
                cache_salt=request.cache_salt,
                origin=self._origin,
            ),
            context=None if context is None else context.request_id,
            adapter=self._adapter_number(address),
        )
        queue = UpdateQueue(whole=params.is_background and not (request.streams or request.stop))
        submission = TokenSubmission(message, prompts, queue, path=self.clock.path, images=images)
        self._submitted.add(submission)
        return Stream(submission)

    def infer(
        self,
        address: EngineAddress,
        inputs: Tensors,
        outputs: list[str] | None = None,
        text_lengths: Sequence[int] | None = None,
        hold: bool = False,
        held: Mapping[str, Held] | None = None,
        images: TextImages | None = None,
    ) -> Deferred[Tensors]:
        """Prepare tensors for an engine that replies once; `text_lengths` are the tokens of each text."""
        message = SubmitTensors(
            address,
            outputs=outputs,
            origin=self._origin,
            hold=hold,
            held={name: held_request.request_id for name, held_request in (held or {}).items()},
            adapter=self._adapter_number(address),
        )
        lengths = text_lengths or ()
        submission = TensorSubmission(message, inputs, lengths, path=self.clock.path, images=images)
        self._submitted.add(submission)
        return Deferred(submission)

    def _adapter_number(self, address: EngineAddress) -> int:
        """The load number of the adapter that a model is run with: a graph may name other models too."""
        adapter = self._adapter
        return adapter.number if adapter is not None and adapter.model == address.model else 0

    # --- for endpoints

    @property
    def prompt_lengths(self) -> list[int]:
        """Tokens of each prompt or text, as they were first submitted, and of each image that is no part of a
        prompt; of a reply in parts those of each.
        """
        in_parts = isinstance(self.result, Series)
        return self._submitted.text_lengths if in_parts else self._submitted.first_lengths

    @property
    def num_image_tokens(self) -> int:
        """Tokens of all images of a request for vectors."""
        return self._submitted.num_image_tokens

    @property
    def prompt_ids(self) -> list[list[int]]:
        """Token ids of each prompt, as they were first submitted."""
        return self._submitted.prompt_ids

    @property
    def prompt_text(self) -> str:
        """The text of the first prompt of a generative engine, as far as it is known."""
        return next((prompt.prompt_text for prompt in self._submitted.prompts), "")

    @property
    def sampling_params(self) -> SamplingParams:
        """How the reply of a generative engine is sampled."""
        submission = _first_submission(self.result)
        assert isinstance(submission, TokenSubmission), "a graph that generates submits prompts"
        return submission.params

    @property
    def num_choices(self) -> int:
        """Choices of all prompts, or the texts of a reply that comes whole."""
        return _first_submission(self.result).num_choices

    @property
    def others(self) -> Spent:
        """What other calls spent that were made for this one."""
        return NOTHING_SPENT

    def choice(self, index: int) -> StreamChoice:
        """A choice of the stream, once its prompts were sent."""
        return self._submitted.choice(index)

    def end_choice(self, index: int) -> None:
        """End one choice of the stream, whose updates are not read any more; the others run on."""
        self._choices.stop(index, self._submitted.generating)

    def count_tool_calls(self, request_type: str, streams: bool) -> None:
        """Count deltas, or without `streams` choices, with and without tool calls, if any are looked for."""
        if self.plan.tool_calls is not None:
            self._choices.count_tool_calls(request_type, streams)

    def start(self) -> None:
        """Send what is ready to its engines.  Raises Unavailable without one; then nothing runs."""
        if self._replies.is_closed:
            raise ValueError("this call was closed")
        try:
            self._submitted.send_ready(PARTS_AHEAD if isinstance(self.result, Series) else None)
        except BraidError:
            self.close()
            raise
        num_choices, lengths = self.num_choices, self.prompt_lengths
        if isinstance(self.result, Stream):
            self._choices.begin_stream(num_choices)
        elif isinstance(self.result, Series):
            self._choices.begin_whole(num_choices, lengths)
        else:
            self._choices.begin_whole(max(num_choices, len(lengths)), lengths)

    async def updates(self) -> AsyncIterator[list[tuple[int, Any]]]:
        """What arrived since the last iteration: (choice, update) pairs in order, until every choice ended.

        Raises the request's BraidError when a step failed or the engine went away.
        """
        choices = self._choices
        try:
            stream = await self._replies.started(self.result, choices)
            if stream is None:
                return  # closed from outside
            submission: TokenSubmission = stream.source
            chains = [self.clock.chain(stream, submission.choice(i)) for i in range(submission.num_choices)]
            while choices.open:
                batch = await submission.update_queue.get()
                if not batch:
                    return  # closed from outside
                yield [
                    (update.choice, choices.push(chains[update.choice], update, submission))
                    for update in batch
                    if update.choice in choices.open
                ]
        except BraidError:
            self._end("error")
            raise

    async def answer(self) -> Any:
        """The reply of a graph whose reply comes whole; None when the call was closed from outside.

        Raises the request's BraidError when the models refused it, failed or went away.
        """
        reply = await self.value(self.result)
        if reply is not None:
            self._choices.end("stop")
        return reply

    async def value(self, deferred: Deferred[T]) -> T | None:
        """What a reply left to be read; None when the call was closed from outside.  Raises as `answer`."""
        try:
            found: T | None = await self._replies.value(deferred)
        except BraidError:
            self._end("error")
            raise
        return found

    async def parts(self) -> AsyncIterator[Any]:
        """The parts of the reply in order, each once it has arrived; its memory is freed when it was read.

        Ends early when the call was closed from outside.  Raises the request's BraidError.
        """
        waiting, self.result = deque(self.result.parts), None
        try:
            while waiting and not self._replies.is_closed:
                value = await self._replies.next_part(waiting)
                if value is None:
                    return
                yield value
        except BraidError:
            self._end("error")
            raise
        if not self._replies.is_closed:
            self._choices.end("stop")

    def close(self) -> None:
        """Abort what has not ended; its blocks are free within a step."""
        if not self._replies.is_closed:
            defer(self._count_nodes)
        self._replies.is_closed = True
        self._end("abort")

    def _end(self, finish: str) -> None:
        self._choices.end(finish)
        self._submitted.end()

    def _count_nodes(self) -> None:
        model = self.model if self._adapter is None else self._adapter.model
        count_nodes(model, self.clock.works)


def _first_submission(value: Stream[Any] | Deferred[Any] | Series[Any]) -> Submission:
    """What a value begins with; of a later call it may be an earlier one's."""
    source: Any = value.source
    while isinstance(source, Deferred):
        source = source.source
    submission: Submission = source
    return submission

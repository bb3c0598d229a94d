"""One request in flight: what it submits, what comes back, its end.  Knows nothing of HTTP or of graphs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from pipelines.errors import BraidError, RequestError
from pipelines.tasks import PURPOSES, PoolingInput
from pipelines.telemetry import metrics
from pipelines.values import Deferred, Stream, Tensors, TokenUpdate
from pipelines.wire.address import EngineAddress
from pipelines.wire.client import EngineClient
from pipelines.wire.sampling_params import GuideSpec, SamplingParams
from pipelines.wire.update_queue import PendingReply, UpdateQueue
from pipelines.worker.submissions import GrammarWriter, Submission, TensorWork

LARGE_ANSWER_BYTES = 1 << 20
"""What is made of a larger answer is made off the event loop."""


class Call:
    """One request in flight.  It owns what it started: `close` aborts whatever has not ended.

    A choice is in `_open` until its last update was read; `close` may be called at any time, twice too.
    """

    def __init__(self, model: str, request: Any, client: EngineClient) -> None:
        self.request = request
        self.prompt_text = ""  # what the template rendered, for parsers that must know how it ended
        self.reply_text = ""  # the reply's beginning, where the request brings it
        self.prompt_ids: list[list[int]] = []  # each prompt as the tokenizer gave it
        self.prompt_lengths: list[int] = []  # tokens of each prompt
        self.result: Any = None
        self.taken: set[str] = set()  # fields of the request that a node of the graph took up
        self.model = model
        self._client = client
        self._work: Submission | TensorWork | None = None
        self._open: set[int] = set()
        self._closed = False
        self._timing = metrics.RequestTiming(model)

    def submit(
        self,
        address: EngineAddress,
        prompts: list[list[int]],
        params: SamplingParams,
        write: GrammarWriter | None = None,
    ) -> Stream[TokenUpdate]:
        """Have prompts ready for an engine; `request.n` choices come back for each once the call started."""
        num_choices = len(prompts) * self.request.n
        work = self._work = Submission(address, prompts, params, UpdateQueue(), num_choices, write)
        self.prompt_lengths = [len(ids) for ids in prompts]
        return Stream(work)

    @property
    def guided(self) -> GuideSpec | None:
        """What the submitted output must be, None for anything."""
        return self._work.params.guide if isinstance(self._work, Submission) else None

    @property
    def can_guide(self) -> bool:
        """Whether the engine can hold the output to anything."""
        work = self._work
        return isinstance(work, Submission) and work.write is not None and work.params.beams is None

    def guide(self, field: str) -> GuideSpec:
        """The same, to be filled in.  Raises RequestError, naming `field`, where nothing would keep to it."""
        work = self._writing(field)[0]
        if work.params.beams is not None:
            raise RequestError("beam search cannot keep to this", field)
        if work.params.guide is None:
            work.params.guide = GuideSpec()
        return work.params.guide

    def grammar(self, format: dict[str, Any], field: str) -> str:
        """A format as the grammar of a GuideSpec.  Raises RequestError, naming `field`, if it is none."""
        return self._writing(field)[1](format, field)

    def _writing(self, field: str) -> tuple[Submission, GrammarWriter]:
        work = self._work
        if not isinstance(work, Submission) or work.write is None:
            raise RequestError("this model's graph has no grammar node, which this needs", field)
        return work, work.write

    def check(self) -> None:
        """The graph was walked.  Raises RequestError for what no node of it took up."""
        wanted, guide = self.request, self.guided
        if getattr(wanted, "tool_choice", None) is not None and (guide is None or guide.grammar is None):
            raise RequestError("this model's graph looks for no tool calls", "tool_choice")
        if getattr(wanted, "thinking_budget", None) is not None and (guide is None or guide.thinking is None):
            raise RequestError(
                "this model's graph looks for no reasoning here, so that none can be bounded",
                "thinking_token_budget",
            )
        if isinstance(wanted, PoolingInput):
            self._check_pooling(wanted)

    def _check_pooling(self, wanted: PoolingInput) -> None:
        if wanted.dimensions is not None and "dimensions" not in self.taken:
            raise RequestError(
                f"Model '{self.model}' does not support Matryoshka embeddings; dimensions must be unset "
                f"(received dimensions={wanted.dimensions}).",
                "dimensions",
            )
        if wanted.purpose not in (None, *PURPOSES) and "purpose" not in self.taken:
            raise RequestError(
                f"Unsupported input_type '{wanted.purpose}'. This model does not define any input_type task "
                "instructions.",
                "input_type",
            )

    def infer(
        self, address: EngineAddress, inputs: Tensors, outputs: list[str] | None, num_texts: int = 1
    ) -> Deferred[Tensors]:
        """Have tensors ready for an engine; `answer` gives what comes back once the call started.

        They stand for `num_texts` texts, each counted as a choice.  Of several that a graph asks for the
        first goes out at the start, and its texts are the call's; each other when it is answered for.
        """
        work = TensorWork(address, inputs, outputs, PendingReply(), num_texts)
        if self._work is None:
            self._work = work
        return Deferred(work)

    def start(self) -> None:
        """Send what was submitted to its engine.  Raises Unavailable without one; then nothing runs."""
        work = self._work
        if work is None:
            raise ValueError("this call was closed, or its graph has no engine node")
        self._send(work)
        self._open = set(range(work.num_choices))
        if isinstance(work, Submission):
            self._timing.started(self.prompt_lengths, self.request.n, work.params.max_tokens)
        elif self.prompt_lengths:
            self._timing.read(self.prompt_lengths)

    def _send(self, work: Submission | TensorWork) -> None:
        work.request_id = work.send(self._client, self.request)
        self._work = work

    async def updates(self) -> AsyncIterator[list[tuple[int, Any]]]:
        """What arrived since the last look: (choice, update) pairs in order, until every choice ended.

        Raises the request's BraidError when a step failed or the engine went away.
        """
        submission = self.result.source
        chains = [self.result.chain(choice) for choice in range(submission.num_choices)]
        while self._open:
            try:
                batch = await submission.update_queue.get()
            except BraidError:
                self._forget_open("error")
                raise
            if not batch:
                return  # closed from outside
            yield [
                (update.choice, self._push(chains[update.choice], update))
                for update in batch
                if update.choice in self._open
            ]

    async def answer(self) -> Any:
        """The reply of a graph whose reply comes whole; None when the call was closed from outside.

        Raises the request's BraidError when the models refused it, failed or went away.
        """
        try:
            answer = await self._resolved(self.result)
        except BraidError:
            self._forget_open("error")
            raise
        if answer is not None and self._open:
            self._timing.answered_late(len(self._open), "stop")
            self._open.clear()
        return answer

    async def _resolved(self, later: Deferred[Any]) -> Any:
        """The value, after all that is made of it; None when the call was closed from outside."""
        if later.source.request_id is None:
            self._send(later.source)
        answer = await later.source.slot.get()
        if answer is None:
            return None
        value: Any = Tensors(answer)
        is_large = sum(array.nbytes for array in value.values()) > LARGE_ANSWER_BYTES
        for make in later.makers:
            value = await asyncio.to_thread(make, value) if is_large else make(value)
            if self._closed:
                return None
            if isinstance(value, Deferred):
                value = await self._resolved(value)
            if value is None:
                return None
        return value

    def _push(self, chain: Callable[[Any], Any], update: TokenUpdate) -> Any:
        if update.prefill_s is not None:
            self._timing.prefilled(update.choice, update.prefill_s)
        out = chain(update)
        self._timing.tokens(update.choice, out.num_tokens)
        if out.finish is not None:
            self._end(update, out.finish)
        return out

    def _end(self, update: TokenUpdate, finish: str) -> None:
        """A choice ended.  When a machine ended it before the engine did, the engine is told to stop."""
        self._open.discard(update.choice)
        self._timing.ended(update.choice, finish)
        work = self._work
        if update.finish is None and work is not None and work.request_id is not None:
            self._client.abort(work.request_id, update.choice)

    def close(self) -> None:
        """Abort what has not ended; its blocks are free within a step."""
        self._closed = True
        work = self._work
        if work is not None and work.request_id is not None and self._open:
            self._forget_open("abort")
            self._client.abort(work.request_id)
        self._work = None

    def _forget_open(self, finish: str) -> None:
        """Nothing more comes for the choices that have not ended."""
        if isinstance(self._work, TensorWork) and self._open:
            self._timing.answered(len(self._open), finish)
        else:
            for choice in sorted(self._open):
                self._timing.ended(choice, finish)
        self._open.clear()

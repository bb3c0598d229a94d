"""One request straight down the list of bindings.  Knows nothing of HTTP, YAML or what a node computes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphs.graph import Source
from graphs.node import Node
from pipelines import metrics
from pipelines.errors import BraidError, RequestError
from pipelines.sampling.params import GuideSpec, SamplingParams
from pipelines.values import Later, Stream, Tensors, TokenUpdate
from pipelines.wire.client import EngineClient
from pipelines.wire.mailbox import Mailbox, Slot


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine node's work is done: a model, one load of it, and the node's name."""

    model: str
    load: int
    node: str


@dataclass(frozen=True, slots=True)
class Line:
    """One live binding: the node and where its inputs come from."""

    name: str
    node: Node
    sources: Mapping[str, Source]

    def inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {port: _read(values, source) for port, source in self.sources.items()}


def _read(values: Mapping[str, Any], source: Source) -> Any:
    value = values[source.root]
    for field in source.fields:
        value = getattr(value, field)
    return value


class Pipeline:
    """The worker's side of one load of a model: its request nodes, live."""

    def __init__(self, name: str, version: int, task: str, max_context: int, lines: list[Line]) -> None:
        self.name = name
        self.version = version
        self.task = task
        self.lines = lines
        self._max_context = max_context
        self.created = int(time.time())

    @property
    def max_context(self) -> int:
        """Tokens that prompt and output may have together; of a graph without an engine: of those it names.

        Raises Unavailable while one that it names is loading.
        """
        if self._max_context:
            return self._max_context
        named = (getattr(line.node, "named_context", 0) for line in self.lines)
        return min((bound for bound in named if bound), default=0)

    def open(self, request: Any, client: EngineClient) -> Call:
        """Start one request.  Raises RequestError before anything runs, Unavailable without an engine."""
        call = self.prepare(request, client)
        call.start()
        return call

    def prepare(self, request: Any, client: EngineClient) -> Call:
        """Walk one request without starting it: in any thread, for prompts that take long to tokenize.

        Raises RequestError.  What comes back is started, or dropped, on the client's event loop.
        """
        call = Call(self.name, request, client)
        call.result = self.walk(call, request)
        call.check()
        return call

    def walk(self, call: Call, request: Any) -> Any:
        """Run the lines in order; the last one's value is the result."""
        values = {"request": request}
        for line in self.lines:
            values[line.name] = line.node.run(call, **line.inputs(values))  # type: ignore[attr-defined]
        return values[self.lines[-1].name]

    def close(self) -> None:
        for line in self.lines:
            line.node.close()


GrammarWriter = Callable[[dict[str, Any], str], str]
"""A format (`pipelines.guides.formats`) and the field it came from → a checked grammar, or RequestError."""


@dataclass(slots=True)
class Submission:
    """Prompts that a call gives to an engine.  `request_id` is None until they were sent.

    `write` makes grammars for it; None where its engine keeps to none.
    """

    address: EngineAddress
    prompts: list[list[int]]
    params: SamplingParams
    mailbox: Mailbox
    num_choices: int
    write: GrammarWriter | None = None
    request_id: int | None = None

    def send(self, client: EngineClient, request: Any) -> int:
        address = self.address
        return client.submit(
            address.model,
            address.load,
            address.node,
            self.prompts,
            self.params,
            mailbox=self.mailbox,
            n=request.n,
            cache_salt=request.cache_salt,
        )


@dataclass(slots=True)
class TensorWork:
    """Tensors that a call gives to an engine, answered whole.  `request_id` is None until they were sent."""

    address: EngineAddress
    inputs: Tensors
    outputs: list[str] | None
    slot: Slot
    num_choices: int = 1
    request_id: int | None = None

    def send(self, client: EngineClient, request: Any) -> int:
        address = self.address
        return client.infer(
            address.model, address.load, address.node, self.inputs, self.outputs, slot=self.slot
        )


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
        self._client = client
        self._work: Submission | TensorWork | None = None
        self._open: set[int] = set()
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
        work = self._work = Submission(address, prompts, params, Mailbox(), num_choices, write)
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

    def infer(self, address: EngineAddress, inputs: Tensors, outputs: list[str] | None) -> Later[Tensors]:
        """Have tensors ready for an engine; `answer` gives what comes back once the call started."""
        work = self._work = TensorWork(address, inputs, outputs, Slot())
        return Later(work)

    def start(self) -> None:
        """Send what was submitted to its engine.  Raises Unavailable without one; then nothing runs."""
        work = self._work
        if work is None:
            raise ValueError("this call was closed, or its graph has no engine node")
        work.request_id = work.send(self._client, self.request)
        self._open = set(range(work.num_choices))
        if isinstance(work, Submission):
            self._timing.started(self.prompt_lengths, self.request.n, work.params.max_tokens)

    async def updates(self) -> AsyncIterator[list[tuple[int, Any]]]:
        """What arrived since the last look: (choice, update) pairs in order, until every choice ended.

        Raises the request's BraidError when a step failed or the engine went away.
        """
        submission = self.result.source
        chains = [self.result.chain(choice) for choice in range(submission.num_choices)]
        while self._open:
            try:
                batch = await submission.mailbox.get()
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

    async def answer(self) -> Tensors | None:
        """The reply of a graph whose reply comes whole; None when the call was closed from outside.

        Raises the request's BraidError when the models refused it, failed or went away.
        """
        try:
            answer = await self.result.source.slot.get()
        except BraidError:
            self._forget_open("error")
            raise
        if answer is None:
            return None
        self._forget_open("stop")
        return Tensors(answer)

    def _push(self, chain: Callable[[Any], Any], update: TokenUpdate) -> Any:
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
        work, self._work = self._work, None
        if work is None or work.request_id is None or not self._open:
            return
        self._forget_open("abort")
        self._client.abort(work.request_id)

    def _forget_open(self, finish: str) -> None:
        """Nothing more comes for the choices that have not ended."""
        for choice in sorted(self._open):
            self._timing.ended(choice, finish)
        self._open.clear()

"""One request to a composed graph: its lines ask other models, each by a call of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from time import monotonic
from typing import Any, cast

from pipelines.base.cancellation import ShortWork, TakesLong, WorkCancelled
from pipelines.base.errors import BraidError
from pipelines.nodes.interface import AskedReply, NamedGraph
from pipelines.nodes.line import Line
from pipelines.nodes.request_plan import RequestPlan
from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import LINE_DECISIONS
from pipelines.telemetry.registry import labelled
from pipelines.telemetry.request_trace import LineTrace, NotesCalls
from pipelines.values.stream_values import Deferred, Stream, StreamChoice
from pipelines.values.tasks import GenerationInput
from pipelines.wire.sampling_params import SamplingParams
from pipelines.worker.asked_call import AskedCall
from pipelines.worker.call import Call
from pipelines.worker.carried import carried
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.line_call import LineCall
from pipelines.worker.line_values import LineValues
from pipelines.worker.named_errors import NamedErrors
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.plain_lines import PlainLines
from pipelines.worker.request_sizes import is_long
from pipelines.worker.spent import NOTHING_SPENT, Spent, spent_by_all
from pipelines.worker.stream_pieces import reply_of

Batch = list[tuple[int, Any]]


class ComposedCall(Call):
    """Lines run as soon as what they read is there; the reply of the last one is the reply.

    Each call of another model is an ordinary one, for the same client, tenant and trace; all of them end with
    this one.  `asked` holds them in the order of their beginnings, `decisions` what a line decided, `heard`
    what is said in sounds of the request, by their places in it.
    """

    is_composed = True

    def __init__(
        self,
        pipeline: Pipeline,
        request: Any,
        plan: RequestPlan,
        client: RequestClient,
        tenant: str,
        trace: NotesCalls | None,
    ) -> None:
        super().__init__(pipeline.name, request, plan, client, tenant, pipeline.adapter, trace)
        self.asked: list[AskedCall] = []
        self.decisions: dict[str, str] = {}
        self.heard: dict[str, str] = {}
        self.tenant = tenant
        self._pipeline = pipeline
        self._lines = pipeline.lines
        self._composing = pipeline.composing
        self._client, self._trace = client, trace
        self._own: PlainLines | None = None
        self._made_last: asyncio.Future[Any] | None = None  # by the last line
        self._tool_counts: tuple[str, bool] | None = None
        self._handed: AskedReply | None = None  # whose updates are the reply

    # --- for endpoints

    @property
    def num_choices(self) -> int:
        return len(self.prompt_lengths) * getattr(self.request, "n", 1)

    @property
    def prompt_lengths(self) -> list[int]:
        """Zeros: the tokens of prompts are known later, and counted in `others`."""
        prompts = self.request.prompts if isinstance(self.request, GenerationInput) else []
        return [0] * max(1, len(prompts))

    @property
    def others(self) -> Spent:
        return spent_by_all((self._own_spent, *(asked.counted_here for asked in self.asked)))

    @property
    def sampling_params(self) -> SamplingParams:
        return SamplingParams(**self.request.sampling)

    def choice(self, index: int) -> StreamChoice:
        return super().choice(index) if self._handed is None else self._handed.choice(index)

    def end_choice(self, index: int) -> None:
        self._choices.passed(index, "abort")
        if self._handed is not None:
            self._handed.end_choice(index)

    def count_tool_calls(self, request_type: str, streams: bool) -> None:
        self._tool_counts = (request_type, streams)

    def start(self) -> None:
        if self._replies.is_closed:
            raise ValueError("this call was closed")
        if self._pipeline.streams:
            self._choices.begin_stream(self.num_choices)
        else:
            self._choices.begin_whole(1, [])
        if self._pipeline.handing is None:
            self._begin(self._run())
        else:
            self._hand_on(self._pipeline.handing)

    async def updates(self) -> AsyncIterator[Batch]:
        try:
            result = await self._result()
            if result is None:
                return  # closed from outside
            with NamedErrors("line", self._lines[-1].name):
                async for batch in self._handed_on(result):
                    yield batch
                    for choice, update in batch:
                        self._choices.passed(choice, update.piece.finish)
        except BraidError:
            self._end("error")
            raise

    async def answer(self) -> Any:
        try:
            result = await self._result()
            if result is None:
                return None
            with NamedErrors("line", self._lines[-1].name):
                value = await self._read(result)
        except BraidError:
            self._end("error")
            raise
        self._choices.end("stop")
        return value

    async def parts(self) -> AsyncIterator[Any]:
        try:
            result = await self._result()
            if result is None:
                return
            with NamedErrors("line", self._lines[-1].name):
                async for part in result.parts():
                    yield part
        except BraidError:
            self._end("error")
            raise
        self._choices.end("stop")

    def close(self) -> None:
        super().close()
        if self._made_last is not None:
            self._made_last.cancel()

    def _end(self, finish: str) -> None:
        super()._end(finish)
        if self._own is not None:
            self._own.close()
        for asked in self.asked:
            asked.close()

    # --- its lines

    def _begin(self, lines: Coroutine[Any, Any, Any]) -> None:
        self._made_last = asyncio.create_task(lines, name=f"compose-{self.model}")
        self._made_last.add_done_callback(_retrieve)

    def _hand_on(self, line: Line) -> None:
        """Run the only line of a graph that hands its request on.  A short request is prepared at once: the
        other model has it before the event loop's next turn, without a task.
        """
        node: Any = line.node
        from_s, done = monotonic(), asyncio.get_running_loop().create_future()
        try:
            with NamedErrors("line", line.name):
                inputs = line.inputs({"request": self.request})
                graph, request = node.handed_on(LineCall(line.name, is_result=True, call=self), **inputs)
                asked = self._asked_if_short(line.name, graph, request)
        except Exception as error:
            done.set_exception(error)
        else:
            if asked is None:
                self._begin(self._asked_later(line.name, graph, request, from_s))
                return
            done.set_result(asked)
        self.clock.ran(line.name, from_s)
        self._made_last = done
        _retrieve(done)

    async def _asked_later(self, line: str, graph: NamedGraph, request: Any, from_s: float) -> AskedCall:
        try:
            with NamedErrors("line", line):
                return await self._asked_by_thread(line, graph, request)
        finally:
            self.clock.ran(line, from_s)

    async def _run(self) -> Any:
        """Run the lines; what the last one made."""
        line_tasks: dict[str, asyncio.Task[Any]] = {}
        values = LineValues(self.request, self._lines, line_tasks, self._read)
        *others, last = self._lines
        for line in others:
            line_tasks[line.name] = asyncio.create_task(self._made(line, values), name=f"line-{line.name}")
        try:
            return await self._made(last, values)
        finally:
            values.close()
            for task in line_tasks.values():
                task.cancel()

    async def _made(self, line: Line, values: LineValues) -> Any:
        """What the node of a line makes of its inputs, once they are there."""
        node: Any = line.node
        if line.name not in self._composing:
            inputs = await values.inputs(line, whole=False)
            with NamedErrors("line", line.name):
                if node.takes_long:
                    return await asyncio.to_thread(node.run, self._plain, **inputs)
                return self.clock.run(line.name, node.run, self._plain, inputs)
        inputs = await values.inputs(line, whole=not node.reads_pieces)
        from_s = monotonic()
        composer = LineCall(line.name, line in (self._lines[-1], self._pipeline.answer), self)
        try:
            with NamedErrors("line", line.name):
                return await node.compose(composer, **inputs)
        finally:
            self.clock.ran(line.name, from_s)

    def note(self, line: str, decision: str) -> None:
        """Record what a line decided."""
        self.decisions[line] = decision
        deferred.gain(labelled(LINE_DECISIONS, self.model, line, decision))

    def pieces(self, stream: Stream[Any]) -> AskedReply:
        """The stream of a line, to be read piece by piece."""
        return reply_of(stream, lambda: self._plain, self.num_choices, self.clock)

    async def ask(self, line: str, graph: NamedGraph, request: Any) -> AskedCall:
        """Start a call of another model for a line."""
        asked = self._asked_if_short(line, graph, request)
        return await self._asked_by_thread(line, graph, request) if asked is None else asked

    async def _asked_by_thread(self, line: str, graph: NamedGraph, request: Any) -> AskedCall:
        """Start a call of another model whose request is prepared in a thread."""
        pipeline = cast(Pipeline, graph)
        with NamedErrors("model", pipeline.name):
            call = await asyncio.to_thread(self._prepared, line, pipeline, request)
            return self.begin(line, call, pipeline.streams)

    def _asked_if_short(self, line: str, graph: NamedGraph, request: Any) -> AskedCall | None:
        """Start a call of another model; None where its request is to be prepared in a thread."""
        pipeline = cast(Pipeline, graph)
        with NamedErrors("model", pipeline.name):
            if pipeline.takes_long or is_long(request):
                return None
            try:
                with ShortWork():
                    call = self._prepared(line, pipeline, request)
            except TakesLong:
                return None
            return self.begin(line, call, pipeline.streams)

    def _prepared(self, line: str, pipeline: Pipeline, request: Any) -> Call:
        trace = None if self._trace is None else LineTrace(self._trace, line)
        request = carried(request, self.request)
        return pipeline.prepare(request, self._client, self.tenant, trace=trace)

    def begin(self, line: str, call: Call, streams: bool) -> AskedCall:
        """Start a call that was prepared for a line.  Raises WorkCancelled if this one was closed."""
        asked = AskedCall(line, call, streams)
        if self._replies.is_closed:
            asked.close()
            raise WorkCancelled
        self.asked.append(asked)
        call.start()
        return asked

    async def _read(self, value: Any) -> Any:
        """What is in a value that comes later."""
        if isinstance(value, Stream):
            value = self.pieces(value)
        if isinstance(value, AskedReply):
            value = await (value.reply() if value.streams else value.answer())
        elif isinstance(value, Deferred):
            value = await self._plain.value(value)
        if value is None and self._replies.is_closed:
            raise asyncio.CancelledError
        return value

    def _handed_on(self, result: Any) -> AsyncIterator[Batch]:
        """The updates of what the last line made."""
        reply = self.pieces(result) if isinstance(result, Stream) else result
        self._handed = reply
        reply.hand_on()
        if self._tool_counts is not None:
            for asked in self.asked:
                asked.count_tool_calls(*self._tool_counts)
        updates: AsyncIterator[Batch] = reply.updates()
        return updates

    async def _result(self) -> Any:
        """What the last line made; None when the call was closed from outside."""
        assert self._made_last is not None, "a call is started before it is read"
        try:
            result = await self._made_last
        except asyncio.CancelledError:
            if not self._replies.is_closed:
                raise
        return None if self._replies.is_closed else result

    @property
    def _plain(self) -> PlainLines:
        """What runs the plain lines; made where there is one."""
        if self._own is None:
            model, adapter = self.model, self._pipeline.adapter
            self._own = PlainLines(model, self.request, self.plan, self._client, self.tenant, adapter)
        return self._own

    @property
    def _own_spent(self) -> Spent:
        """What the engines of the graph's own lines read, and wrote for other lines."""
        return NOTHING_SPENT if self._own is None else self._own.spent


def _retrieve(task: asyncio.Future[Any]) -> None:
    """An error of lines that none reads any more is no error of the event loop."""
    if not task.cancelled():
        task.exception()

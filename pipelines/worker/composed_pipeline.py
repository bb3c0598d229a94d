"""A composed graph in a worker: some of its lines ask other models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pipelines.base.errors import RequestError, Unavailable
from pipelines.nodes.interface import Composing, HandingOn, NamesGraph, Running
from pipelines.nodes.line import Line
from pipelines.telemetry.request_trace import NotesCalls
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.composed_call import ComposedCall
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.pipeline import Pipeline


class ComposedPipeline(Pipeline):
    """The pipeline plans and checks its plain lines at once, the graphs of others when they are asked."""

    is_composed = True

    def __init__(self, name: str, version: int, task: str, max_context: int, lines: list[Line]) -> None:
        super().__init__(name, version, task, max_context, lines)
        self.composing = frozenset(line.name for line in lines if isinstance(line.node, Composing))
        self.answer = _answer(lines)
        self.handing = lines[0] if len(lines) == 1 and isinstance(lines[0].node, HandingOn) else None
        nodes = {id(line.node) for line in lines if line.name not in self.composing}
        self._planning = [node for node in self._planning if id(node) in nodes]
        self._checking = [node for node in self._checking if id(node) in nodes]

    @property
    def answering(self) -> Sequence[Line]:
        """The line that answers, and the plain ones: what others ask is no part of the reply."""
        return [line for line in self.lines if line is self.answer or line.name not in self.composing]

    @property
    def max_context(self) -> int:
        """The smallest of the graphs that the line names which answers."""
        last = self.answer.node
        if not isinstance(last, NamesGraph):
            return super().max_context
        return min((graph.max_context for graph in last.named_graphs() if graph.max_context), default=0)

    @property
    def takes_long(self) -> bool:
        """No: the lines run later, those that take long in threads."""
        return False

    def prepare(
        self,
        request: Any,
        client: RequestClient,
        tenant: str = "",
        earlier: Call | None = None,
        trace: NotesCalls | None = None,
    ) -> Call:
        plan = self.plan(request)
        self.check(request, plan)
        if isinstance(request, GenerationInput) and request.sampling.get("prompt_logprobs") is not None:
            raise RequestError(
                f"{self.name} asks several models: its reply has no prompt to score; leave `prompt_logprobs` "
                "out",
                "prompt_logprobs",
            )
        return ComposedCall(self, request, plan, client, tenant, trace)

    def run(self, call: Running, request: Any) -> NoReturn:
        """Raise Unavailable: a plain graph ran it, which is built anew as a composed one."""
        raise Unavailable(f"{self.name} was loaded a moment ago; try again")


def _answer(lines: Sequence[Line]) -> Line:
    """The last line, or the one that gives the stream that the last one passes on."""
    last, by_name = lines[-1], {line.name: line for line in lines}
    while isinstance(last.node, Composing) and last.node.reads_pieces:
        last = next(by_name[source.root] for source in last.sources.values() if source.root in by_name)
    return last

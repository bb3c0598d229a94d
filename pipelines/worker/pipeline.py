"""A model's graph in a worker: live nodes, run once per request from the first line to the last."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast, get_origin

from pipelines.nodes.interface import Checking, NamesGraph, Planning, Running
from pipelines.nodes.line import Line
from pipelines.nodes.request_plan import RequestPlan, merged
from pipelines.telemetry.request_trace import NotesCalls
from pipelines.values.stream_values import Stream
from pipelines.values.tasks import TASKS
from pipelines.worker.call import Call
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.request_checks import check_handled
from pipelines.worker.used_adapter import UsedAdapter


class Pipeline:
    """The worker's side of one loaded model: its request nodes, live.

    A request is planned first, against the direction of the values: each node adds what it needs of the nodes
    before it.  Then the values flow forward, and neither the request nor the plan changes any more.
    `model` is whose graph it is, `name` what clients call it: the model's name, or that of an adapter.
    """

    is_composed = False
    composing: frozenset[str] = frozenset()
    """The names of the lines that ask other models, of a composed graph."""
    handing: Line | None = None
    """The only line of a composed graph, where that hands the request on to another model."""

    def __init__(self, name: str, version: int, task: str, max_context: int, lines: list[Line]) -> None:
        self.name = self.model = name
        self.adapter: UsedAdapter | None = None
        self.version = version
        self.task = task
        self.streams = get_origin(TASKS[task].reply) is Stream  # whether the reply comes in pieces
        self.lines = lines
        self.answer = lines[-1]  # the line whose reply it is
        self.created = int(time.time())
        self._max_context = max_context
        self._takes_long = any(line.node.takes_long for line in lines)
        self._planning = [line.node for line in reversed(lines) if isinstance(line.node, Planning)]
        self._checking = [line.node for line in lines if isinstance(line.node, Checking)]
        self._naming = [line.node for line in lines if isinstance(line.node, NamesGraph)]

    @property
    def answering(self) -> Sequence[Line]:
        """The lines that make the reply."""
        return self.lines

    def adapted(self, adapter: UsedAdapter) -> Pipeline:
        """This pipeline with an adapter, under whose name requests are answered and counted."""
        adapted = copy.copy(self)
        adapted.name, adapted.adapter = adapter.name, adapter
        return adapted

    @property
    def max_context(self) -> int:
        """Tokens that prompt and output may have together; of a graph without an engine: of those it names.

        Raises Unavailable while one that it names is loading.
        """
        if self._max_context:
            return self._max_context
        named = (graph.max_context for node in self._naming for graph in node.named_graphs())
        return min((bound for bound in named if bound), default=0)

    @property
    def named_models(self) -> tuple[str, ...]:
        """The models that the graph's lines name, each once, in the order of the lines."""
        names = (name for node in self._naming for name in node.names(node.config))
        return tuple(dict.fromkeys(names))

    @property
    def takes_long(self) -> bool:
        """Whether preparing a request may take so long that no event loop may wait for it."""
        return self._takes_long or any(
            graph.takes_long for node in self._naming for graph in node.named_graphs()
        )

    def open(self, request: Any, client: RequestClient) -> Call:
        """Start one request.  Raises RequestError before anything runs, Unavailable without an engine."""
        call = self.prepare(request, client)
        call.start()
        return call

    def prepare(
        self,
        request: Any,
        client: RequestClient,
        tenant: str = "",
        earlier: Call | None = None,
        trace: NotesCalls | None = None,
    ) -> Call:
        """Run the nodes for one request without sending anything; may be called in any thread.

        `tenant` is whose turn it takes among those that wait for an engine.  `earlier`: a call about the same
        input, whose reply has begun; what the host holds of it is used again, until that call is closed.
        `trace` is of the HTTP request that it is a part of.
        Raises RequestError.  The call is started, or dropped, on the client's event loop.
        """
        plan = self.plan(request)
        self.check(request, plan)
        check_handled(self.name, request, plan)
        call = Call(self.name, request, plan, client, tenant, self.adapter, trace)
        try:
            values = self._values(call, request, earlier.held if earlier else {})
        except BaseException:
            call.close()
            raise
        call.held = {name: values[name] for name in plan.held if name in values}
        call.result = values[self.lines[-1].name]
        return call

    def plan(self, request: Any) -> RequestPlan:
        """What the nodes need of each other for this request."""
        return merged([node.plan(request) for node in self._planning])

    def check(self, request: Any, plan: RequestPlan) -> None:
        """Raise RequestError where a node cannot do what the plan holds."""
        for node in self._checking:
            node.check(request, plan)

    def run(self, call: Running, request: Any) -> Any:
        """Run the lines in order; the last one's value is the result."""
        return self._values(call, request, {})[self.lines[-1].name]

    def close(self) -> None:
        for line in self.lines:
            line.node.close()

    def _values(self, call: Running, request: Any, known: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the lines, of which some may be known already."""
        values = {"request": request, **known}
        clock = cast(Call, call).clock
        for line in self._without(known) if known else self.lines:
            values[line.name] = clock.run(line.name, line.node.run, call, line.inputs(values))
        return values

    def _without(self, known: Collection[str]) -> list[Line]:
        """The lines that must run for the result where these values are known, in order."""
        wanted, needed = {self.lines[-1].name}, []
        for line in reversed(self.lines):
            if line.name in wanted and line.name not in known:
                needed.append(line)
                wanted.update(source.root for source in line.sources.values())
        return needed[::-1]

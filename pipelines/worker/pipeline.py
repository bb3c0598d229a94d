"""A model's graph in a worker: live nodes, and the walk of a request straight down the list of bindings.

Knows nothing of HTTP, YAML or what a node computes.
"""

from __future__ import annotations

import time
from typing import Any

from pipelines.nodes.line import Line
from pipelines.wire.client import EngineClient
from pipelines.worker.call import Call


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

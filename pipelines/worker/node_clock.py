"""Times the nodes of one call: two readings of the clock around each piece of a node's work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from pipelines.telemetry.node_work import NodeWork
from pipelines.values.stream_values import Deferred, Series, Stream, StreamChoice


class NodeClock:
    """The work of each node by its path: its name, and for a node of another graph NODE.INNER.

    What a node adds to a value that is still to come (stages of a stream, functions of a reply) is its work
    too.  Used by one thread at a time.
    """

    def __init__(self) -> None:
        self.works: dict[str, NodeWork] = {}
        self._open: list[str] = []  # paths of the nodes that run now, the outermost first
        self._owners: dict[int, tuple[object, NodeWork]] = {}  # by the id of what a node added

    @property
    def path(self) -> str:
        """The path of the node that runs now."""
        return self._open[-1] if self._open else ""

    def run(self, name: str, run: Callable[..., Any], call: Any, inputs: Mapping[str, Any]) -> Any:
        """Run a node."""
        path = f"{self._open[-1]}.{name}" if self._open else name
        self._open.append(path)
        work = self.works.get(path) or self.works.setdefault(path, NodeWork(path))
        from_s = monotonic()
        try:
            value = run(call, **inputs)
        finally:
            work.ran(from_s, monotonic())
            self._open.pop()
        self._claim(value, work)
        return value

    def ran(self, name: str, from_s: float) -> None:
        """A node that waits for other models began at `from_s` and has ended now."""
        work = self.works.get(name) or self.works.setdefault(name, NodeWork(name))
        work.ran(from_s, monotonic())

    def chain(self, stream: Stream[Any], choice: StreamChoice) -> Callable[[Any], Any]:
        """The stages of one choice as one function: engine update in, last stage's update out."""
        stages = [(make(choice).push, self._owner(make).worked) for make in stream.makers]

        def push(update: Any) -> Any:
            from_s = monotonic()
            for push_one, worked in stages:
                update = push_one(update)
                to_s = monotonic()
                worked(from_s, to_s)
                from_s = to_s
            return update

        return push

    def apply(self, make: Callable[[Any], Any], value: Any) -> Any:
        """What a function of a reply makes of a value; the node that added it runs meanwhile."""
        work, from_s = self._owner(make), monotonic()
        self._open.append(work.path)
        try:
            result = make(value)
        finally:
            work.worked(from_s, monotonic())
            self._open.pop()
        self._claim(result, work)
        return result

    def _owner(self, make: object) -> NodeWork:
        """The work of the node that added `make`; of none where it is unknown."""
        found = self._owners.get(id(make))
        return NodeWork() if found is None else found[1]

    def _claim(self, value: Any, work: NodeWork) -> None:
        """What was added to a value, and has no owner yet, is a node's."""
        for part in value.parts if isinstance(value, Series) else (value,):
            while isinstance(part, Stream | Deferred):
                for make in part.makers:
                    self._owners.setdefault(id(make), (make, work))
                part = part.source

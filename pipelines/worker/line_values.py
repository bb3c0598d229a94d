"""The values of a composed graph's lines while they run: each is waited for where another line reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, get_origin

from graphs.graph import Source
from pipelines.nodes.interface import AskedReply
from pipelines.nodes.line import Line, field_of
from pipelines.values.stream_values import Arrived, Deferred, Stream
from pipelines.worker.named_errors import NamedErrors


class LineValues:
    """The values of one call.  `line_tasks` are the tasks that make them, by the names of the lines; `read`
    waits for what a line made, such as the reply of another model.

    A node that composes gets values whole; a plain one gets them as its inputs are declared.
    """

    def __init__(
        self,
        request: Any,
        lines: Sequence[Line],
        line_tasks: Mapping[str, asyncio.Task[Any]],
        read: Callable[[Any], Awaitable[Any]],
    ) -> None:
        self._request = request
        self._lines = {line.name: line for line in lines}
        self._line_tasks = line_tasks
        self._read = read
        self._known: dict[str, asyncio.Task[Any]] = {}

    async def inputs(self, line: Line, whole: bool) -> dict[str, Any]:
        """The inputs of a line, `whole` or as they are declared.  Raises what the lines above raised."""
        get = self._whole if whole else self._declared
        read = [source for source in line.sources.values() if source.root in self._lines]
        found = iter(await asyncio.gather(*map(get, read)) if read else ())
        return {
            port: next(found) if source.root in self._lines else field_of(self._request, source)
            for port, source in line.sources.items()
        }

    async def _whole(self, source: Source) -> Any:
        return field_of(await self.known(source.root), source)

    async def _declared(self, source: Source) -> Any:
        gives = self._lines[source.root].gives
        if get_origin(gives) is Deferred:
            return Deferred(Arrived(await self.known(source.root)))
        value = await self._line_tasks[source.root]
        return Stream(value) if isinstance(value, AskedReply) else field_of(value, source)

    async def known(self, name: str) -> Any:
        """The value of a line, once it is there."""
        if name not in self._known:
            self._known[name] = asyncio.create_task(self._value(name))
        return await self._known[name]

    async def _value(self, name: str) -> Any:
        made = await self._line_tasks[name]
        with NamedErrors("line", name):
            return await self._read(made)

    def close(self) -> None:
        for task in self._known.values():
            task.cancel()

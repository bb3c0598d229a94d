"""What the node of one line may use of a composed call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pipelines.nodes.interface import AskedReply, Composer, NamedGraph

Ask = Callable[[str, NamedGraph, Any], Awaitable[AskedReply]]
Note = Callable[[str, str], None]


class LineCall(Composer):
    """The line `line` of a composed call, whose functions `ask` and `note` take its name first."""

    def __init__(self, line: str, request: Any, tenant: str, is_result: bool, ask: Ask, note: Note) -> None:
        self._line = line
        self._request = request
        self._tenant = tenant
        self._is_result = is_result
        self._ask = ask
        self._note = note

    @property
    def request(self) -> Any:
        return self._request

    @property
    def is_result(self) -> bool:
        return self._is_result

    @property
    def tenant(self) -> str:
        return self._tenant

    async def ask(self, graph: NamedGraph, request: Any) -> AskedReply:
        return await self._ask(self._line, graph, request)

    def note(self, decision: str) -> None:
        self._note(self._line, decision)

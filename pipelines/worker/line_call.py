"""What the node of one line may use of a composed call."""

from __future__ import annotations

from typing import Any, Protocol

from pipelines.nodes.interface import AskedReply, Composer, NamedGraph
from pipelines.values.stream_values import Stream


class WholeCall(Protocol):
    """The composed call that lines run for; `ask` and `note` take the name of the line first."""

    request: Any
    tenant: str
    heard: dict[str, str]

    async def ask(self, line: str, graph: NamedGraph, request: Any) -> AskedReply: ...

    def pieces(self, stream: Stream[Any]) -> AskedReply: ...

    def note(self, line: str, decision: str) -> None: ...


class LineCall(Composer):
    """The line `line` of a composed call."""

    def __init__(self, line: str, is_result: bool, call: WholeCall) -> None:
        self._line = line
        self._is_result = is_result
        self._call = call

    @property
    def request(self) -> Any:
        return self._call.request

    @property
    def is_result(self) -> bool:
        return self._is_result

    @property
    def tenant(self) -> str:
        return self._call.tenant

    async def ask(self, graph: NamedGraph, request: Any) -> AskedReply:
        return await self._call.ask(self._line, graph, request)

    def pieces(self, stream: Stream[Any]) -> AskedReply:
        return self._call.pieces(stream)

    def hear(self, where: str, text: str) -> None:
        self._call.heard[where] = text

    def note(self, decision: str) -> None:
        self._call.note(self._line, decision)

"""A graph as a node of another graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from graphs.graph import Graph, PortsBySettings
from graphs.node import Node, NodeConfig, Port
from pipelines.nodes.interface import (
    AskedReply,
    Checking,
    Composer,
    HandingOn,
    NamedGraph,
    Planning,
    Running,
)
from pipelines.nodes.naming import CALLED, NamesOne
from pipelines.nodes.request_plan import RequestPlan


class GraphNode(NamesOne, Node, PortsBySettings, Planning, Checking, HandingOn):
    """Runs another model's graph in the same call: its request goes in, its reply comes out."""

    class Config(NodeConfig):
        elsewhere = CALLED

        graph: str = Field(description="name of another model of the repository")

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The ports of the named graph's task."""
        from pipelines.values.tasks import TASKS

        task = TASKS[graph(config.graph).task]
        return {"request": Port(task.request, optional=False)}, task.reply

    def plan(self, request: Any) -> RequestPlan:
        return self.named_graph().plan(request)

    def check(self, request: Any, plan: RequestPlan) -> None:
        self.named_graph().check(request, plan)

    def run(
        self, call: Running, request: Annotated[Any, "the request of that model's task"]
    ) -> Annotated[Any, "the reply of a model"]:
        return self.named_graph().run(call, request)

    async def compose(self, call: Composer, request: Any) -> AskedReply:
        return await call.ask(*self.handed_on(call, request))

    def handed_on(self, call: Composer, request: Any) -> tuple[NamedGraph, Any]:
        return self.named_graph(), request

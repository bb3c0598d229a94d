"""A graph as a node of another graph.  Knows names of models, not their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from graphs.node import Node, NodeConfig, Port

if TYPE_CHECKING:
    from graphs.graph import GraphLookup
    from pipelines.loading import Resources
    from pipelines.worker.call import Call


class GraphNode(Node):
    """Runs another model's graph in the same call: its request goes in, its reply comes out."""

    class Config(NodeConfig):
        graph: str = Field(description="name of another model of the repository")

    @classmethod
    def ports_for(cls, config: Any, graphs: GraphLookup) -> tuple[Mapping[str, Port], Any]:
        """The named graph's own border instead of a fixed signature."""
        from pipelines.tasks import TASKS

        task = TASKS[graphs(config.graph).task]  # type: ignore[union-attr]  # the checker found it already
        return {"request": Port(task.request, optional=False)}, task.reply

    def load(self, resources: Resources) -> None:
        self.find = resources.pipeline

    @property
    def named_context(self) -> int:
        """Tokens that a prompt and its answer may have in the named graph."""
        return self.find(self.config.graph).max_context

    def run(self, call: Call, request: Any) -> Any:
        return self.find(self.config.graph).walk(call, request)

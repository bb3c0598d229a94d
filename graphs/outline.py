"""A checked graph as plain data, for programs that show it: nodes in the order of the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from graphs.flow import show
from graphs.graph import Binding, Graph
from graphs.placement import PROCESSES, process
from graphs.settings import given_settings


class NodeOutline(BaseModel):
    """One line of a graph.  Lines of a body are called PARENT.NAME in `path`.

    `settings` are those that the file gives, nested ones by their dotted path.  `graphs` are the names of
    the other models that the node asks.  `root` is the name by which the lines of `body` read the engine's
    value, of type `root_type`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    name: str
    path: str
    type: str
    gives: str
    sources: dict[str, str] = Field(alias="from")
    settings: dict[str, Any]
    process: str
    line: int
    graphs: list[str] = []
    root: str | None = None
    root_type: str | None = None
    body: list[NodeOutline] = []


class GraphOutline(BaseModel):
    """A whole graph; `request` and `reply` are the types of its task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    description: str
    request: str
    reply: str
    nodes: list[NodeOutline]

    def walk(self) -> Iterator[NodeOutline]:
        """All nodes, each before those of its body."""
        for node in self.nodes:
            yield node
            yield from node.body


def outline(graph: Graph) -> GraphOutline:
    """The outline of a graph."""
    return GraphOutline(
        task=graph.task,
        description=graph.description,
        request=show(graph.request),
        reply=show(graph.reply),
        nodes=[_node(binding, "") for binding in graph.bindings],
    )


def _node(binding: Binding, parent: str) -> NodeOutline:
    path, contract = f"{parent}{binding.name}", binding.type.body
    return NodeOutline(
        name=binding.name,
        path=path,
        type=binding.type_name,
        gives=show(binding.gives),
        settings=given_settings(binding.config),
        process=PROCESSES[process(binding)],
        line=binding.line,
        graphs=list(binding.graphs),
        root=contract.root if contract else None,
        root_type=show(contract.gives) if contract else None,
        body=[_node(inner, f"{path}.") for inner in binding.body],
        **{"from": {port: str(source) for port, source in binding.sources.items()}},
    )

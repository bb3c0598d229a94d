"""What nodes that name other models of the repository have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graphs.graph import Graph, SettingError
from graphs.node import Node
from pipelines.nodes.interface import Loading, NamedGraph, NamesGraph

CALLED = {"model": "the other model is named by `graph`"}
"""Settings by which other programs name a model → the error text of lines that ask other models."""


class NamesGraphs(Node, NamesGraph):
    """A node with the names of other models in its settings; `names` is its own."""

    find: Callable[[str], NamedGraph] | None

    def load(self, resources: Loading) -> None:
        self.find = resources.pipeline

    def live_graph(self, name: str) -> NamedGraph:
        """A live graph.  Raises NotFound, and Unavailable while it is loading."""
        if self.find is None:
            raise TypeError("the engine host runs no graphs of other models")
        return self.find(name)

    def named_graphs(self) -> Sequence[NamedGraph]:
        return [self.live_graph(name) for name in self.names(self.config)]


class NamesOne(NamesGraphs):
    """A node with the name of one other model in the setting `graph`."""

    @classmethod
    def names(cls, config: Any) -> Sequence[str]:
        return (config.graph,)

    def named_graph(self) -> NamedGraph:
        """The live graph.  Raises NotFound, and Unavailable while it is loading."""
        return self.live_graph(self.config.graph)


def nodes_of(graph: NamedGraph) -> Iterator[Any]:
    """The request nodes that make the reply of a graph, those of graphs inside it too."""
    for line in graph.answering:
        if isinstance(line.node, NamesGraph):
            for inner in line.node.named_graphs():
                yield from nodes_of(inner)
        else:
            yield line.node


def task_of(graph: Callable[[str], Graph], name: str, tasks: tuple[str, ...], *setting: str | int) -> str:
    """The task of a named graph, one of `tasks`.  Raises SettingError for another."""
    task = graph(name).task
    if task not in tasks:
        words = " or ".join(f"`{each}`" for each in tasks)
        raise SettingError(f"the task of `{name}` is `{task}`; this line needs one of {words}", *setting)
    return task

"""All graphs of a repository, each checked on first use, so that graphs can name one another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphs.check import check
from graphs.errors import GraphError, Problem
from graphs.graph import Graph, Task
from graphs.node import Node


@dataclass(frozen=True)
class GraphSource:
    """The text of one graph and the folder that its paths start from (None: paths are not looked up).

    `nodes` is the text of the Python file with node types of its own; "": there is none.
    """

    text: str
    folder: Path | None = None
    nodes: str = ""


OwnTypes = Callable[[str, str], Mapping[str, type[Node]]]
"""The name of a graph and the text of its own node types → all types that it may use.  Raises GraphError."""


class Graphs:
    """The graphs of a repository by name: a GraphLookup.

    A graph is checked once and its result, graph or problems, is cached.  A graph that contains itself,
    directly or through others, is a problem.
    """

    def __init__(
        self,
        sources: Mapping[str, GraphSource],
        node_types: Mapping[str, type[Node]],
        tasks: Mapping[str, Task],
        own_types: OwnTypes | None = None,
    ) -> None:
        """Without `own_types` no graph has node types of its own."""
        self._sources = sources
        self._node_types = node_types
        self._own_types = own_types
        self._tasks = tasks
        self._known: dict[str, Graph | GraphError] = {}
        self._open: list[str] = []  # names being checked, outermost first

    @property
    def names(self) -> Collection[str]:
        return self._sources.keys()

    def __call__(self, name: str) -> Graph | None:
        """The graph called `name`, None if there is none.  Raises GraphError if it has problems."""
        if name not in self._sources:
            return None
        if name in self._open:
            circle = " → ".join([*self._open[self._open.index(name) :], name])
            raise GraphError([Problem(1, f"a graph cannot contain itself: {circle}", f"{name}/graph.yaml")])
        if name not in self._known:
            self._known[name] = self._check(name)
        known = self._known[name]
        if isinstance(known, GraphError):
            raise known
        return known

    def _check(self, name: str) -> Graph | GraphError:
        source = self._sources[name]
        self._open.append(name)
        try:
            types = self._types(name, source.nodes)
            return check(source.text, types, self._tasks, source.folder, self, f"{name}/graph.yaml")
        except GraphError as error:
            return error
        finally:
            self._open.pop()

    def _types(self, name: str, nodes: str) -> Mapping[str, type[Node]]:
        return self._own_types(name, nodes) if nodes and self._own_types else self._node_types

"""A checked graph as data: every `Graph` is free of problems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from graphs.node import Node, Port

ROOTS = ("request", "step", "batch")
"""Names that no line may have: the inputs of a graph or of a body."""


@dataclass(frozen=True)
class TaskContract:
    """The types of a task's `request` and of its reply, which is the graph's last line."""

    request: Any
    reply: Any


class Task(Protocol):
    """What the checker reads of a task, such as a `TaskContract`."""

    @property
    def request(self) -> Any: ...

    @property
    def reply(self) -> Any: ...


@dataclass(frozen=True)
class Source:
    """Where an input comes from: a root or a line above, then the fields that are read from its value."""

    root: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.root, *self.fields))


@dataclass(frozen=True)
class Binding:
    """One line: `name` is bound to what a node of type `type` gives when fed from `sources`.

    `sources` is in the order of the node's inputs; an input that is missing there is optional and was left
    out. `gives` is the type of the value; `body` holds the lines of an engine node's body.  `place` is the
    file and the line that messages name; `graphs` are those of the other models that its settings name.
    """

    name: str
    type_name: str
    type: type[Node]
    config: Any
    sources: Mapping[str, Source]
    gives: Any
    line: int
    body: tuple[Binding, ...] = ()
    place: str = ""
    graphs: Mapping[str, Graph] = field(default_factory=dict, compare=False, repr=False)

    @property
    def results(self) -> tuple[Binding, ...]:
        """The lines of the body that no other of its lines reads, in order: what the body gives."""
        read = {source.root for line in self.body for source in line.sources.values()}
        return tuple(line for line in self.body if line.name not in read)


@dataclass(frozen=True)
class Graph:
    """A straight-line program: `bindings` in the order of execution, the last one's value is the reply.

    `folder` is where its paths start from; None where they are not looked up.
    """

    task: str
    request: Any
    reply: Any
    bindings: tuple[Binding, ...]
    description: str = ""
    folder: Path | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Binding:
        """The line called `name`; raises KeyError."""
        for binding in self.bindings:
            if binding.name == name:
                return binding
        raise KeyError(name)

    @property
    def result(self) -> Binding:
        """The line whose value is the reply."""
        return self.bindings[-1]


class SettingError(ValueError):
    """A setting that its type allows and the graph does not; `at` leads to it, from the line on."""

    def __init__(self, message: str, *at: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


@runtime_checkable
class PortsBySettings(Protocol):
    """A node type whose ports depend on its settings instead of on the signature of `run`."""

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """Inputs, and the type of the output.  `graph` returns another model's graph, or raises.

        Raises SettingError.
        """


class GraphLookup(Protocol):
    """The other graphs of the repository, for nodes that name one."""

    @property
    def names(self) -> Collection[str]:
        """All names."""

    def __call__(self, name: str) -> Graph | None:
        """The graph of that name, None if there is none; raises GraphError if it has problems."""

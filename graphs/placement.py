"""Divides a graph's lines between the two processes, and lists what crosses between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphs import node
from graphs.graph import Binding, Graph, Source

Process = Literal["worker", "host"]

PROCESSES: Mapping[Process, str] = {"worker": "worker", "host": "engine host"}
"""Each process in the words that people read."""


@dataclass(frozen=True)
class Crossing:
    """What is sent to one engine node and what it sends back.

    `inputs` maps each connected port to its source and type; `gives` is the type of the engine's value.
    """

    engine: str
    inputs: Mapping[str, tuple[Source, Any]]
    gives: Any


@dataclass(frozen=True)
class Placement:
    """Every binding is in exactly one of `worker` and `host`, in the order of the file.

    `host` holds engine nodes, whose bodies run there with them.
    """

    worker: tuple[Binding, ...]
    host: tuple[Binding, ...]
    crossings: tuple[Crossing, ...]


def process(binding: Binding) -> Process:
    """The process of a line: request nodes run in a worker, engine nodes and their bodies in the host."""
    return "worker" if binding.type.place == "request" else "host"


def placement(graph: Graph) -> Placement:
    """The division of a graph's lines between worker and engine host."""
    host = tuple(binding for binding in graph.bindings if process(binding) == "host")
    worker = tuple(binding for binding in graph.bindings if process(binding) == "worker")
    return Placement(worker, host, tuple(map(_crossing, host)))


def _crossing(engine: Binding) -> Crossing:
    ports = node.inputs(engine.type)
    inputs = {port: (source, ports[port].type) for port, source in engine.sources.items()}
    return Crossing(engine.name, inputs, engine.gives)

"""A graph → which of its lines runs in which process, and what crosses between them.

Knows places; knows nothing of sockets or processes themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphs import node
from graphs.graph import Binding, Graph, Source

Process = Literal["worker", "host"]


@dataclass(frozen=True)
class Crossing:
    """What one engine node is sent and what it sends back.

    `inputs` maps each connected port to its source and type; `gives` is the type of the engine's value.
    """

    engine: str
    inputs: Mapping[str, tuple[Source, Any]]
    gives: Any


@dataclass(frozen=True)
class Plan:
    """Every binding is in exactly one of `worker` and `host`; each in the order of the file.

    `host` holds engine nodes, whose bodies run there with them.
    """

    worker: tuple[Binding, ...]
    host: tuple[Binding, ...]
    crossings: tuple[Crossing, ...]


def process(binding: Binding) -> Process:
    """Where a line's work is done: request nodes in a worker, engine nodes and their bodies in the host."""
    return "worker" if binding.type.place == "request" else "host"


def plan(graph: Graph) -> Plan:
    """The division of a graph's lines between worker and engine host."""
    host = tuple(binding for binding in graph.bindings if process(binding) == "host")
    worker = tuple(binding for binding in graph.bindings if process(binding) == "worker")
    return Plan(worker, host, tuple(map(_crossing, host)))


def _crossing(engine: Binding) -> Crossing:
    ports = node.inputs(engine.type)
    inputs = {port: (source, ports[port].type) for port, source in engine.sources.items()}
    return Crossing(engine.name, inputs, engine.gives)

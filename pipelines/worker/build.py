"""A model's graph becomes the worker's pipeline: its request nodes, live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol, Self

from graphs.compose import Graphs
from graphs.graph import Graph
from pipelines.loading.load import GraphFolder, Resources, checked_graph, live_nodes
from pipelines.wire.address import EngineAddress
from pipelines.worker.pipeline import Pipeline

NOTHING_KNOWN: Mapping[str, bool] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model as the engine host loaded it: a copy of its small files in `path`, and its graph."""

    name: str
    version: int
    path: Path
    graph: str
    source: ClassVar[str] = "graph.yaml"

    def graph_text(self) -> str:
        return self.graph

    def opened(self) -> Self:
        return self


class VersionedFolder(GraphFolder, Protocol):
    """A model that can be loaded, one of its versions."""

    @property
    def version(self) -> int: ...


def load_for_worker(
    model: VersionedFolder,
    instance_id: int,
    max_context: int,
    graphs: Graphs | None = None,
    pipeline: Callable[[str], Pipeline] | None = None,
    known: Mapping[str, bool] = NOTHING_KNOWN,
) -> Pipeline:
    """The request nodes of a model, live.  Raises BuildError.

    `instance_id` names the engine host's instance that calls use; `pipeline` finds other models' pipelines,
    of which `known` says which are composed.
    """
    graph = checked_graph(model, graphs)
    resources = Resources(EngineAddress(model.name, instance_id, ""), max_context, pipeline)
    lines = live_nodes(model, graph.bindings, resources)
    make = _composed() if is_composed(graph, graphs, known) else Pipeline
    return make(model.name, model.version, graph.task, max_context, lines)


def is_composed(graph: Graph, graphs: Graphs | None, known: Mapping[str, bool] = NOTHING_KNOWN) -> bool:
    """Whether a line of a graph, or of those that it names, asks other models while it runs; of some models
    that is `known`, whatever their graphs say.
    """
    for line in graph.bindings:
        if hasattr(line.type, "compose") and not hasattr(line.type, "run"):
            return True
        for name in line.type.names(line.config) if hasattr(line.type, "names") else ():
            other = graphs(name) if graphs is not None and name not in known else None
            if known.get(name) or (other is not None and is_composed(other, graphs, known)):
                return True
    return False


def _composed() -> type[Pipeline]:
    """Imported for the first composed graph: most servers have none."""
    from pipelines.worker.composed_pipeline import ComposedPipeline

    return ComposedPipeline

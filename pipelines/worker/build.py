"""A model's graph becomes the worker's pipeline: its request nodes, live."""

from __future__ import annotations

from collections.abc import Callable

from graphs.compose import Graphs
from pipelines.loading.load import Resources, checked_graph, live_nodes
from pipelines.repository.model_folders import ModelFolder
from pipelines.wire.address import EngineAddress
from pipelines.worker.pipeline import Pipeline


def load_for_worker(
    model: ModelFolder,
    instance_id: int,
    max_context: int,
    graphs: Graphs | None = None,
    pipeline: Callable[[str], Pipeline] | None = None,
) -> Pipeline:
    """The request nodes of a model, live.  Raises BuildError.

    `instance_id` names the engine host's instance that calls use; `pipeline` finds other models' pipelines.
    """
    graph = checked_graph(model, graphs)
    resources = Resources(EngineAddress(model.name, instance_id, ""), max_context, pipeline)
    lines = live_nodes(model, graph.bindings, resources)
    return Pipeline(model.name, model.version, graph.task, max_context, lines)

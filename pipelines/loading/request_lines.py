"""Opens once what workers open of a model: what is wrong with their files is found before it is served."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from graphs.compose import Graphs
from graphs.graph import Graph
from graphs.node import FilePath, named_paths
from pipelines.loading.load import BuildError, Resources, checked_graph, live_nodes, problem_of
from pipelines.nodes.interface import HasNotes
from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.snapshot import SnapshotError, why_left_out
from pipelines.repository.snapshots import Snapshots
from pipelines.wire.address import EngineAddress


def check_request_lines(model: ModelFolder, graphs: Graphs | None = None) -> list[str]:
    """Open the lines of a graph as each worker does, from a copy such as workers get, and close them.

    Returns the notes of its lines.  Blocks; raises BuildError.
    """
    graph = checked_graph(model, graphs)
    _check_files(model, graph)
    snapshots = Snapshots()
    try:
        return _open(model, graph, snapshots.take(model).path)
    except (OSError, SnapshotError) as error:
        raise BuildError([f"{model.name}: {error}"]) from error
    finally:
        snapshots.close()


def _open(model: ModelFolder, graph: Graph, copy: Path) -> list[str]:
    """Open and close the lines of a graph, from a copy of the model's files.  Raises BuildError."""
    notes: list[str] = []
    try:
        resources = Resources(EngineAddress(model.name, 0, ""))
        for line in live_nodes(replace(model, path=copy), graph.bindings, resources):
            if isinstance(line.node, HasNotes):
                notes += line.node.notes()
            line.node.close()
    except BuildError as error:
        problems = [problem.replace(str(copy), str(model.path)) for problem in error.problems]
        raise BuildError(problems) from error
    return notes


def _check_files(model: ModelFolder, graph: Graph) -> None:
    """Raise BuildError where a snapshot does not hold a file: one that a line names, or that is none."""
    if no_files := [path.relative_to(model.path).as_posix() for path in model.no_files()]:
        raise BuildError([f"{model.name}: {path} is no file" for path in no_files])
    for binding in graph.bindings:
        for path in named_paths(binding.config, FilePath):
            reason = why_left_out(model.path / path)
            if reason is not None:
                raise BuildError([problem_of(binding, ValueError(f"workers cannot read {path}: {reason}"))])

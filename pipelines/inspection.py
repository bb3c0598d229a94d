"""Models looked at without loading them: their graphs checked and drawn, for people at a terminal.

Knows folders and graphs; opens no model and no device.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphs import draw
from graphs.compose import Graphs, GraphSource
from graphs.errors import GraphError
from graphs.graph import Graph
from graphs.schema import schema
from pipelines.loading import Sources
from pipelines.nodes import VOCABULARY
from pipelines.repository import model_folders
from pipelines.repository.model_folders import GRAPH_FILE, ModelFolder
from pipelines.tasks import TASKS


@dataclass(frozen=True)
class Finding:
    """One model: its graph, or its problems in the order of lines; exactly one of the two is there."""

    name: str
    folder: Path
    graph: Graph | None
    problems: tuple[str, ...] = ()

    @property
    def written(self) -> bool:
        """False when the folder has no graph.yaml and is served by the graph made for it."""
        return (self.folder / GRAPH_FILE).is_file()

    def text(self) -> str:
        """The graph drawn for a terminal; raises ValueError for a model with problems."""
        return draw.text(self._drawable())

    def mermaid(self) -> str:
        """The graph as a mermaid flowchart; raises ValueError for a model with problems."""
        return draw.mermaid(self._drawable())

    def _drawable(self) -> Graph:
        if self.graph is None:
            raise ValueError(f"{self.name} has problems and cannot be drawn")
        return self.graph


def inspect(folder: Path) -> list[Finding]:
    """Every model of a repository, or the one model that `folder` is.

    Raises FileNotFoundError when `folder` is no folder; a repository without models gives [].
    """
    models = model_folders.scan(folder)
    alone = model_folders.is_model(folder)
    sources = _Neighbours(folder) if alone else Sources(models)
    graphs = Graphs(sources, VOCABULARY, TASKS)
    return [_finding(model, graphs) for model in models]


def find(name: str, models: Path) -> Finding:
    """The model called `name` in the repository `models`, or the one in a folder of that name.

    Raises LookupError, naming what there is, when there is neither.
    """
    folder = Path(name)
    if folder.is_dir() and model_folders.is_model(folder):
        return inspect(folder)[0]
    findings = {finding.name: finding for finding in inspect(models)} if models.is_dir() else {}
    if name not in findings:
        there = ", ".join(findings) or "none"
        raise LookupError(f"{name} is neither a model's folder nor a model of {models}; which holds: {there}")
    return findings[name]


def schema_text() -> str:
    """The JSON Schema of graph.yaml, for editors."""
    return json.dumps(schema(VOCABULARY, TASKS), indent=2, ensure_ascii=False) + "\n"


def _finding(model: ModelFolder, graphs: Graphs) -> Finding:
    try:
        return Finding(model.name, model.path, graphs(model.name))
    except GraphError as error:
        return Finding(model.name, model.path, None, tuple(map(str, error.problems)))
    except (OSError, UnicodeDecodeError) as error:
        return Finding(model.name, model.path, None, (f"{model.name}/{GRAPH_FILE}:1: not readable: {error}",))


class _Neighbours(Mapping[str, GraphSource]):
    """One model's graph and, when it names others, those of the folders beside it."""

    def __init__(self, folder: Path) -> None:
        self._beside = folder.resolve().parent

    def __getitem__(self, name: str) -> GraphSource:
        folder = self._beside / name
        if name not in set(self):
            raise KeyError(name)
        model = model_folders.open_folder(folder, name)
        return GraphSource(model.graph_text(), model.path)

    def __iter__(self) -> Iterator[str]:
        for child in sorted(self._beside.iterdir()):
            if child.is_dir() and model_folders.is_model(child):
                yield child.name

    def __len__(self) -> int:
        return sum(1 for _ in self)

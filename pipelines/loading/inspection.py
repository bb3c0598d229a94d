"""Checks and draws the graphs of models without loading the models, for the command line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphs import draw
from graphs.compose import Graphs, GraphSource
from graphs.graph import Graph
from graphs.schema import schema
from pipelines.adapters.adapter_config import read_adapter_config
from pipelines.adapters.read_adapter import adapter_folders
from pipelines.adapters.weights import AdapterError
from pipelines.loading.load import BuildError, Sources, checked_graph, graphs_from, nodes_text, problem_of
from pipelines.loading.request_lines import check_request_lines
from pipelines.nodes import VOCABULARY
from pipelines.nodes.interface import ChecksFiles
from pipelines.repository import model_folders
from pipelines.repository.files.report import notes_of
from pipelines.repository.model_folders import GRAPH_FILE, ModelFolder
from pipelines.values.tasks import TASKS


@dataclass(frozen=True)
class Finding:
    """One model with either its graph, or the problems of its graph in the order of lines.

    `notes` are what its graph.pbtxt says that changes nothing here, its adapters, and those of
    its lines; `source` is where its
    graph comes from.
    """

    name: str
    folder: Path
    graph: Graph | None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = GRAPH_FILE

    def text(self) -> str:
        """The graph drawn for a terminal.  Raises ValueError for a model with problems."""
        return draw.text(self._drawable())

    def mermaid(self) -> str:
        """The graph as a mermaid flowchart.  Raises ValueError for a model with problems."""
        return draw.mermaid(self._drawable())

    def _drawable(self) -> Graph:
        if self.graph is None:
            raise ValueError(f"{self.name} has problems and cannot be drawn")
        return self.graph


def inspect(folder: Path, device: str | None = None, opens: bool = True) -> list[Finding]:
    """Every model of a repository, or the single model when `folder` is a model's folder.

    `device` is what all models run on instead of their own.  `opens`: what workers open of a model is opened
    too.  Raises FileNotFoundError when `folder` is not a folder, ValueError for an invalid config.json;
    [] for a repository without models.
    """
    models = model_folders.scan(folder, device=device)
    is_single = folder.is_dir() and [model.path for model in models] == [folder]
    sources = _SiblingSources(folder) if is_single else Sources(models)
    graphs = graphs_from(sources)
    return [_finding(model, graphs, opens) for model in models]


def find(name: str, models: Path) -> Finding:
    """The model called `name` in the repository `models`, or the one in the folder `name`.

    Raises LookupError, naming the models of the repository, when there is neither.
    """
    folder = Path(name)
    if folder.is_dir() and model_folders.is_model(folder):
        return inspect(folder, opens=False)[0]
    inspected = inspect(models, opens=False) if models.is_dir() else []
    findings = {finding.name: finding for finding in inspected}
    if name not in findings:
        names = ", ".join(findings) or "none"
        raise LookupError(f"{name} is neither a model's folder nor a model of {models}, which holds: {names}")
    return findings[name]


def schema_text() -> str:
    """The JSON Schema of graph.yaml, for editors."""
    return json.dumps(schema(VOCABULARY, TASKS), indent=2, ensure_ascii=False) + "\n"


def _finding(model: ModelFolder, graphs: Graphs, opens: bool) -> Finding:
    try:
        graph = checked_graph(model, graphs)
        opened = model.opened()
        of_lines: list[str] = []
        if opens:
            of_lines = check_request_lines(opened, graphs)
            _check_whole_files(opened, graph)
        notes = (*notes_of(opened.graph_text()), *_adapters(model), *of_lines)
        return Finding(model.name, model.path, graph, (), notes, model.source)
    except BuildError as error:
        return Finding(
            model.name, model.path, graph=None, problems=tuple(error.problems), notes=(), source=model.source
        )
    except Exception as error:  # of files of any kind
        return Finding(
            model.name, model.path, graph=None, problems=(f"{model.name}: {type(error).__name__}: {error}",)
        )


def _check_whole_files(model: ModelFolder, graph: Graph) -> None:
    """Read the files whose damage no other check finds.  Raises BuildError."""
    for binding in (line for top in graph.bindings for line in (top, *top.body)):
        if issubclass(binding.type, ChecksFiles):
            try:
                binding.type.check_files(binding.config, model.path)
            except Exception as error:  # of files of any kind
                raise BuildError([problem_of(binding, error)]) from error


def _adapters(model: ModelFolder) -> Iterator[str]:
    """The adapters below a model, and why one cannot be used, as far as its settings say."""
    for folder in adapter_folders(model.adapters_folder) if model.adapters_folder else ():
        try:
            config = read_adapter_config(folder)
            yield f"adapter {folder.name}: rank {config.r}"
        except AdapterError as error:
            yield f"adapter {folder.name} cannot be used: {error}"


class _SiblingSources(Mapping[str, GraphSource]):
    """The graphs of one model and of its sibling folders, for graphs that name other models."""

    def __init__(self, folder: Path) -> None:
        self._parent = folder.resolve().parent

    def __getitem__(self, name: str) -> GraphSource:
        folder = self._parent / name
        if name not in set(self):
            raise KeyError(name)
        model = model_folders.open_folder(folder, name).opened()
        return GraphSource(model.graph_text(), model.path, nodes_text(model.path))

    def __iter__(self) -> Iterator[str]:
        for child in sorted(self._parent.iterdir()):
            with contextlib.suppress(Exception):  # a sibling of any kind
                if child.is_dir() and model_folders.find_model(child):
                    yield child.name

    def __len__(self) -> int:
        return sum(1 for _ in self)

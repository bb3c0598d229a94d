"""A checked graph becomes live nodes: what the worker and the engine host share when they load a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from graphs.compose import Graphs, GraphSource
from graphs.errors import GraphError
from graphs.graph import Binding, Graph
from graphs.node import Node
from pipelines.base.prepared_models import PreparedModels
from pipelines.nodes import NODES_FILE, VOCABULARY
from pipelines.nodes.interface import NamedGraph
from pipelines.nodes.line import Line
from pipelines.values.tasks import TASKS
from pipelines.wire.address import EngineAddress
from pipelines.wire.messages import GraphText

T = TypeVar("T")


class BuildError(Exception):
    """A model cannot be served.  `problems` holds everything that is wrong with it, one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class GraphFolder(Protocol):
    """A model that can be loaded: one of a repository, or the copy of it that workers get."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path:
        """The folder of the files that its graph names."""

    @property
    def source(self) -> str:
        """The file or folder that the graph comes from, for messages."""

    def graph_text(self) -> str:
        """Raises GraphError, OSError and UnicodeDecodeError."""

    def opened(self) -> Self:
        """The model with the files that its graph names.  Raises GraphError."""


@dataclass
class Resources:
    """What nodes use while they load, one after another: `pipelines.nodes.interface.Loading`."""

    address: EngineAddress
    max_context: int = 0
    pipeline: Callable[[str], NamedGraph] | None = None
    binding: Binding | None = None
    above: Mapping[str, Node] = field(default_factory=dict)
    device: str | None = None
    prepared: PreparedModels | None = None
    _opened: dict[Any, Any] = field(default_factory=dict)

    def shared(self, open_file: Callable[..., T], path: Path, *settings: Any) -> T:
        """What `open_file(path, *settings)` returns: a tokenizer or a model named twice is opened once."""
        key = (open_file, path.resolve(), settings)
        if key not in self._opened:
            self._opened[key] = open_file(path, *settings)
        opened: T = self._opened[key]
        return opened


def graphs_of(models: Collection[GraphFolder]) -> Graphs:
    """The graphs of a repository by name, each checked on first use."""
    return graphs_from(Sources(models))


def graphs_from(sources: Mapping[str, GraphSource]) -> Graphs:
    """The graphs of these sources by name, over the built-in node types and those of each model's own."""
    return Graphs(sources, VOCABULARY, TASKS, _with_own_types)


def _with_own_types(name: str, code: str) -> Mapping[str, type[Node]]:
    from pipelines.nodes.own_nodes import with_own_types

    return with_own_types(name, code)


def nodes_text(folder: Path) -> str:
    """The text of the nodes.py of a folder; "" without one.  Raises OSError and UnicodeDecodeError."""
    if not os.path.lexists(file := folder / NODES_FILE):
        return ""
    from pipelines.repository.files.regular_files import read_regular

    return read_regular(file)


class Sources(Mapping[str, GraphSource]):
    """The graphs of scanned folders, each read on first use: an unreadable one does not affect the others.

    `loaded` holds texts of models that are loaded already; they replace what is on disk.  `texts` holds the
    texts that were requested.
    """

    def __init__(self, models: Collection[GraphFolder], loaded: dict[str, GraphText] | None = None) -> None:
        self._models = {model.name: model for model in models}
        self._loaded = loaded or {}
        self.texts: dict[str, GraphText] = {}

    def __getitem__(self, name: str) -> GraphSource:
        source = self._source(name)
        self.texts[name] = source_text(source)
        return source

    def _source(self, name: str) -> GraphSource:
        if name in self._loaded:
            return source_of(self._loaded[name])
        model = self._models[name].opened()
        return GraphSource(model.graph_text(), model.path, nodes_text(model.path))

    def __iter__(self) -> Iterator[str]:
        return iter(self._models | self._loaded)

    def __len__(self) -> int:
        return len(self._models | self._loaded)


def source_text(source: GraphSource) -> GraphText:
    """What other processes get of a source."""
    return GraphText(source.text, source.nodes)


def source_of(text: GraphText) -> GraphSource:
    """The source of a graph whose paths are not looked up."""
    return GraphSource(text.graph, nodes=text.nodes)


def checked_graph(model: GraphFolder, graphs: Graphs | None) -> Graph:
    try:
        graph = (graphs or graphs_of([model]))(model.name)
    except GraphError as error:
        raise BuildError([str(problem) for problem in error.problems]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError([f"{model.name}/{model.source}:1: not readable: {error}"]) from error
    except RecursionError as error:  # of JSON
        raise BuildError([f"{model.name}: a file is nested too deeply: {error}"]) from error
    if graph is None:
        raise BuildError([f"{model.path}: the folder is gone"])
    _check_streams(graph)
    return graph


def _check_streams(graph: Graph) -> None:
    """Raise BuildError where two lines read one stream."""
    from pipelines.loading.stream_readers import read_twice

    if (twice := read_twice(graph)) is not None:
        line, other = twice
        problem = f"it reads the same stream as `{other}`, which comes once; read one of them"
        raise BuildError([problem_of(line, ValueError(problem))])


def live_nodes(model: GraphFolder, bindings: tuple[Binding, ...], resources: Resources) -> list[Line]:
    """Nodes made and loaded in order.  When one fails, those before it are closed."""
    lines: list[Line] = []
    for binding in bindings:
        resources.binding, resources.above = binding, {line.name: line.node for line in lines}
        resources.address = EngineAddress(
            resources.address.model, resources.address.instance_id, binding.name
        )
        try:
            node = binding.type(binding.config, model.path)
            node.load(resources)
        except Exception as error:
            for line in lines:
                line.node.close()
            raise BuildError([problem_of(binding, error)]) from error
        lines.append(Line(binding.name, node, binding.sources, binding.gives))
    return lines


def problem_of(binding: Binding, error: Exception) -> str:
    return f"{binding.place}: {binding.name} ({binding.type_name}): {error}"

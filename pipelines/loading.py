"""A checked graph becomes live nodes: what the worker and the engine host share when they load a model.

Runs in both processes.  Knows node classes by what `graphs.node` declares of them, and no node type by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphs.compose import Graphs, GraphSource
from graphs.errors import GraphError
from graphs.graph import Binding, Graph
from graphs.node import Node
from pipelines.nodes import VOCABULARY
from pipelines.nodes.line import Line
from pipelines.repository.model_folders import ModelFolder
from pipelines.tasks import TASKS
from pipelines.wire.address import EngineAddress

if TYPE_CHECKING:
    from pipelines.worker.pipeline import Pipeline


class BuildError(Exception):
    """A model cannot be served.  `problems` says everything that is wrong with it, a line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass
class Resources:
    """What a node may reach while it loads.

    `binding` is the node's own line, `above` the live nodes of the lines before it; `device`, when given,
    stands for whatever device the graph names.  `shared(open, path, …)` gives the same object for the same
    file and settings, so that a tokenizer or a model named twice is loaded once.
    """

    address: EngineAddress
    max_context: int = 0
    pipeline: Callable[[str], Pipeline] | None = None
    binding: Binding | None = None
    above: Mapping[str, Node] = field(default_factory=dict)
    device: str | None = None
    _opened: dict[Any, Any] = field(default_factory=dict)

    def shared(self, open_file: Callable[..., Any], path: Path, *settings: Any) -> Any:
        key = (open_file, path.resolve(), settings)
        if key not in self._opened:
            self._opened[key] = open_file(path, *settings)
        return self._opened[key]


def graphs_of(models: Collection[ModelFolder]) -> Graphs:
    """The graphs of a repository by name, each checked on first use."""
    return Graphs(Sources(models), VOCABULARY, TASKS)


class Sources(Mapping[str, GraphSource]):
    """The graphs of scanned folders, each read when it is requested: an unreadable one affects no other.

    `loaded` holds texts of models that are loaded already; they replace what is on disk.  `texts` holds the
    texts that were requested.
    """

    def __init__(self, models: Collection[ModelFolder], loaded: dict[str, str] | None = None) -> None:
        self._models = {model.name: model for model in models}
        self._loaded = loaded or {}
        self.texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> GraphSource:
        source = self._source(name)
        self.texts[name] = source.text
        return source

    def _source(self, name: str) -> GraphSource:
        if name in self._loaded:
            return GraphSource(self._loaded[name])
        model = self._models[name]
        return GraphSource(model.graph_text(), model.path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._models | self._loaded)

    def __len__(self) -> int:
        return len(self._models | self._loaded)


def checked_graph(model: ModelFolder, graphs: Graphs | None) -> Graph:
    try:
        graph = (graphs or graphs_of([model]))(model.name)
    except GraphError as error:
        raise BuildError([str(problem) for problem in error.problems]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError([f"{model.name}/{model.source}: not readable: {error}"]) from error
    if graph is None:
        raise BuildError([f"{model.path}: the folder is gone"])
    return graph


def live_nodes(model: ModelFolder, bindings: tuple[Binding, ...], resources: Resources) -> list[Line]:
    """Nodes made and loaded in order.  When one fails, those before it are closed."""
    lines: list[Line] = []
    for binding in bindings:
        node = binding.type(binding.config, model.path)
        resources.binding, resources.above = binding, {line.name: line.node for line in lines}
        resources.address = EngineAddress(
            resources.address.model, resources.address.instance_id, binding.name
        )
        try:
            node.load(resources)
        except Exception as error:
            for line in lines:
                line.node.close()
            raise BuildError([problem_of(binding, error)]) from error
        lines.append(Line(binding.name, node, binding.sources))
    return lines


def problem_of(binding: Binding, error: Exception) -> str:
    return f"graph.yaml:{binding.line}: {binding.name} ({binding.type_name}): {error}"

"""Graph → live nodes.  The worker builds the request nodes, the engine host the bodies of engine nodes.

Knows node classes by what `graphs.node` declares of them; knows nothing of HTTP or of single node types.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from graphs.compose import Graphs, GraphSource
from graphs.errors import GraphError
from graphs.graph import Binding, Graph
from graphs.node import Node
from pipelines.engine.batching.engine import BatchEngine
from pipelines.engine.profile import StepProfile
from pipelines.engine.threaded import ThreadedEngine
from pipelines.errors import RequestError
from pipelines.nodes import VOCABULARY
from pipelines.nodes.grammar import Grammar
from pipelines.nodes.guesser import Guesser
from pipelines.nodes.tensor_engine import TensorEngine
from pipelines.pipeline import Line, Pipeline
from pipelines.repository import ModelFolder
from pipelines.tasks import TASKS
from pipelines.work import EngineAddress

if TYPE_CHECKING:
    from pipelines.backends.contract import DecoderSession
    from pipelines.backends.encoders import EncoderSession
    from pipelines.backends.tensors import TensorPort
    from pipelines.engine.loop import Engine
    from pipelines.sampling.guide import GuideMaker
    from pipelines.sampling.params import SamplingParams

AnyEngine = TypeVar("AnyEngine", bound=ThreadedEngine[Any])


OF_TOKENS = frozenset({"token_embed"})
"""Tasks that reply rows of tokens; what other tasks reply of a batcher are rows of texts."""


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
    """The graphs of scanned folders, each read when it is asked for: an unreadable one troubles no other."""

    def __init__(self, models: Collection[ModelFolder]) -> None:
        self._models = {model.name: model for model in models}

    def __getitem__(self, name: str) -> GraphSource:
        model = self._models[name]
        return GraphSource(model.graph_text(), model.path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)


def load_for_worker(
    model: ModelFolder,
    load: int,
    max_context: int,
    graphs: Graphs | None = None,
    pipeline: Callable[[str], Pipeline] | None = None,
) -> Pipeline:
    """The request nodes of a model, live.  Raises BuildError.

    `load` names the engine host's load that calls will use; `pipeline` finds other models' pipelines.
    """
    graph = _checked(model, graphs)
    resources = Resources(EngineAddress(model.name, load, ""), max_context, pipeline)
    lines = _live(model, graph.bindings, resources)
    return Pipeline(model.name, model.version, graph.task, max_context, lines)


@dataclass(frozen=True)
class HostModel:
    """The engine host's side of one load of a model: an engine for each engine node, and its body."""

    name: str
    version: int
    task: str = ""
    engines: dict[str, Engine | ThreadedEngine[Any]] = field(default_factory=dict)
    bodies: dict[str, Body] = field(default_factory=dict)

    @property
    def max_context(self) -> int:
        """Tokens that prompt and output may have together, or a text that is read only.

        0 for a graph without an engine of its own.
        """
        decoding = [engine.limits.max_context for engine, _ in self._decoding()]
        reading = [engine.bounds.max_tokens for engine in self._of(BatchEngine)]
        return min((*decoding, *reading), default=0)

    @property
    def cache_tokens(self) -> int:
        return sum(
            engine.counts().blocks_total * sessions[-1].block_tokens for engine, sessions in self._decoding()
        )

    @property
    def cache_bytes(self) -> int:
        return sum(
            engine.counts().blocks_total * session.block_bytes
            for engine, sessions in self._decoding()
            for session in sessions
        )

    @property
    def inputs(self) -> list[TensorPort]:
        """The tensors that a request must hold, for a graph that infers."""
        return [port for engine in self._inferring() for port in engine.inputs.values()]

    @property
    def outputs(self) -> list[TensorPort]:
        """The tensors that such a graph replies."""
        return [port for engine in self._inferring() for port in engine.outputs.values()]

    def guide_maker(self, node: str, params: SamplingParams) -> GuideMaker | None:
        """What keeps the outputs of an engine node to `params.guide`; takes long, in any thread.

        Raises RequestError.
        """
        guides = self.bodies[node].guides
        if guides is None:
            raise RequestError("this model's graph has no grammar node")
        return guides.maker(params)

    def warm(self) -> bool:
        """Prepare something that later steps will want, while none runs; whether there is more of it.

        Engines with a thread of their own see to it themselves.
        """
        stepped = [self.bodies[node] for node, _ in self._stepped()]
        if any(body.warm() for body in stepped):
            return True
        for engine, sessions in self._decoding():
            engine.suppose(sessions[-1].idle_s)
        for body in stepped:
            body.suppose()
        return False

    def close(self) -> None:
        for node, body in self.bodies.items():
            engine = self.engines.get(node)
            if isinstance(engine, ThreadedEngine):
                engine.close()  # its thread may be in the body, and closes that
            else:
                body.close()

    def _decoding(self) -> Iterator[tuple[Engine, list[DecoderSession]]]:
        yield from ((engine, self.bodies[node].sessions) for node, engine in self._stepped())

    def _stepped(self) -> Iterator[tuple[str, Engine]]:
        for node, engine in self.engines.items():
            if not isinstance(engine, ThreadedEngine):
                yield node, engine

    def _inferring(self) -> Iterator[TensorEngine]:
        """Those that read the request itself."""
        return self._of(TensorEngine) if self.task == "infer" else iter(())

    def _of(self, kind: type[AnyEngine]) -> Iterator[AnyEngine]:
        yield from (engine for engine in self.engines.values() if isinstance(engine, kind))


def load_for_host(model: ModelFolder, graphs: Graphs | None = None, device: str | None = None) -> HostModel:
    """The engines of a model, loaded and ready for a first step.  Blocks; raises BuildError.

    `device`, when given, is where its models run, whatever the graph says.
    """
    graph = _checked(model, graphs)
    host_model = HostModel(model.name, model.version, graph.task)
    try:
        for binding in graph.bindings:
            if binding.body:
                _start(host_model, model, binding, device)
                _check_rows(host_model, binding)
    except BuildError:
        host_model.close()
        raise
    return host_model


def _start(host_model: HostModel, model: ModelFolder, binding: Binding, device: str | None) -> None:
    """Load the body of an engine node and the engine around it."""
    resources = Resources(EngineAddress(model.name, 0, binding.name), device=device)
    body = Body(model.path, binding, _live(model, binding.body, resources))
    host_model.bodies[binding.name] = body
    try:
        engine = binding.type(binding.config, model.path).start(body)  # type: ignore[attr-defined]
    except Exception as error:
        raise BuildError([_said(binding, error)]) from error
    host_model.engines[binding.name] = engine


def _check_rows(host_model: HostModel, binding: Binding) -> None:
    """Raise BuildError where a batcher gives rows of tokens and the task is of texts, or the other way."""
    engine = host_model.engines[binding.name]
    if not isinstance(engine, BatchEngine) or engine.per_token == (host_model.task in OF_TOKENS):
        return
    gives, advice = ("tokens", "add a pool line") if engine.per_token else ("texts", "set `how: none`")
    fault = ValueError(f"its body gives rows of {gives}, which is not what {host_model.task} is; {advice}")
    raise BuildError([_said(binding, fault)])


def build_for_host(model: ModelFolder, models: Sequence[ModelFolder], device: str | None = None) -> HostModel:
    """The same, for a model that may name the graphs of the repository's other `models`."""
    return load_for_host(model, graphs_of(models), device)


class Body:
    """The live step graph of one engine node: called once per step, straight down its lines."""

    def __init__(self, folder: Path, engine: Binding, lines: list[Line]) -> None:
        self.folder = folder
        self.bindings = engine.body
        self.lines = lines
        self._root = engine.type.body.root  # type: ignore[union-attr]  # the checker saw that it has one
        self._early = [line.node for line in lines if hasattr(line.node, "begin")]
        self._guessers = [line.node for line in lines if isinstance(line.node, Guesser)]  # the first lines
        self._phases = {line.name: _phase(line.name) for line in engine.body}
        self.profile = StepProfile({self._phases[line.name]: line.type_name for line in engine.body})

    def __call__(self, root: Any) -> Any:
        """The last line's value for what the engine gives: a step, or a batch."""
        values, mark = {self._root: root}, self.profile.mark
        for line in self.lines[: len(self._guessers)]:
            values[line.name] = root = line.node.run(**line.inputs(values))  # type: ignore[attr-defined]
            mark(self._phases[line.name])
        for node in self._early:
            node.begin(root)  # type: ignore[attr-defined]  # what its threads may do while others compute
        if self._early:
            mark("begin")
        for line in self.lines[len(self._guessers) :]:
            values[line.name] = line.node.run(**line.inputs(values))  # type: ignore[attr-defined]
            mark(self._phases[line.name])
        return values[self.lines[-1].name]

    @property
    def num_guesses(self) -> int:
        """Tokens that a guess node, one in each step, may put behind each sequence; 0 where there is none."""
        return max((node.num_guesses for node in self._guessers), default=0)

    @property
    def sessions(self) -> list[DecoderSession]:
        """The decoders of the body, in order; each has its own cache behind the same block table."""
        return [line.node.session for line in self.lines if hasattr(line.node, "session")]

    @property
    def encoders(self) -> list[EncoderSession]:
        """The encoders of the body, in order."""
        return [line.node.encoder for line in self.lines if hasattr(line.node, "encoder")]

    @property
    def guides(self) -> Grammar | None:
        """The line that keeps outputs to what they may be, if there is one."""
        return next((line.node for line in self.lines if isinstance(line.node, Grammar)), None)

    def warm(self) -> bool:
        """Prepare something that later runs will want, while none runs; whether there is more of it."""
        return any(session.warm() for session in (*self.sessions, *self.encoders))

    def suppose(self) -> None:
        """Every session is warm: a line that wants to know what its steps take may ask."""
        for line in self.lines:
            if hasattr(line.node, "suppose"):
                line.node.suppose()

    def close(self) -> None:
        for line in self.lines:
            line.node.close()


def _phase(line: str) -> str:
    """What a line of a body is called in profiles: the engine's own phases are plain words."""
    return f"body.{line}"


def _checked(model: ModelFolder, graphs: Graphs | None) -> Graph:
    try:
        graph = (graphs or graphs_of([model]))(model.name)
    except GraphError as error:
        raise BuildError([str(problem) for problem in error.problems]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError([f"{model.name}/{model.source}: not readable: {error}"]) from error
    if graph is None:
        raise BuildError([f"{model.path}: the folder is gone"])
    return graph


def _live(model: ModelFolder, bindings: tuple[Binding, ...], resources: Resources) -> list[Line]:
    """Nodes made and loaded in order.  When one fails, those before it are closed."""
    lines: list[Line] = []
    for binding in bindings:
        node = binding.type(binding.config, model.path)
        resources.binding, resources.above = binding, {line.name: line.node for line in lines}
        resources.address = EngineAddress(resources.address.model, resources.address.load, binding.name)
        try:
            node.load(resources)
        except Exception as error:
            for line in lines:
                line.node.close()
            raise BuildError([_said(binding, error)]) from error
        lines.append(Line(binding.name, node, binding.sources))
    return lines


def _said(binding: Binding, error: Exception) -> str:
    return f"graph.yaml:{binding.line}: {binding.name} ({binding.type_name}): {error}"

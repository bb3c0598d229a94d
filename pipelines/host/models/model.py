"""A model as the engine host serves it: an engine for each engine node, each around its body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from graphs.compose import Graphs, GraphSource
from graphs.graph import Binding
from pipelines.base.errors import RequestError
from pipelines.host.adapters.adapter_discovery import AdapterFit
from pipelines.host.models.body import LiveBody
from pipelines.host.models.context_checks import check_contexts, held_lines
from pipelines.host.models.mapped_weights import MappedWeights, survive_cut_files
from pipelines.host.models.prefix_files import PrefixFiles
from pipelines.inference.engine.batching.batch_engine import BatchEngine
from pipelines.inference.engine.batching.tensor_engine import TensorEngine
from pipelines.inference.engine.batching.threaded_engine import ThreadedEngine
from pipelines.inference.engine.generation_engine import GenerationEngine
from pipelines.inference.engine.interface.engine_contract import Engine, EngineKind
from pipelines.loading.load import BuildError, Resources, checked_graph, graphs_from, live_nodes, problem_of
from pipelines.nodes.body_interface import StartsEngine
from pipelines.repository.model_folders import ModelFolder
from pipelines.wire.address import EngineAddress

if TYPE_CHECKING:
    from pipelines.adapters.weights import HoldsAdapters
    from pipelines.base.prepared_models import PreparedModels
    from pipelines.inference.contracts.decoder_contract import DecoderSession
    from pipelines.inference.contracts.guide import GuideMaker
    from pipelines.inference.contracts.tensor_contract import TensorPort
    from pipelines.nodes.adapters_config import AdaptersConfig
    from pipelines.wire.sampling_params import SamplingParams

AnyEngine = TypeVar("AnyEngine", bound=ThreadedEngine[Any])

OF_TOKENS = frozenset({"token_embed", "token_classify"})
"""Tasks that reply rows of tokens; what other tasks reply of a batcher are rows of texts."""


@dataclass(frozen=True)
class HostModel:
    """The engine host's side of one model instance: an engine for each engine node, and its body."""

    name: str
    version: int
    task: str = ""
    stepped: dict[str, GenerationEngine] = field(default_factory=dict)
    threaded: dict[str, ThreadedEngine[Any]] = field(default_factory=dict)
    bodies: dict[str, LiveBody] = field(default_factory=dict)

    @property
    def engines(self) -> dict[str, Engine[Any]]:
        """All engines by the name of their node."""
        return {**self.stepped, **self.threaded}

    @property
    def adapters(self) -> dict[str, AdaptersConfig]:
        """The settings of adapters by engine node, of those that take some."""
        lines = [(node, line.config) for node, body in self.bodies.items() for line in body.bindings]
        return {node: each.adapters for node, each in lines if getattr(each, "adapters", None)}

    @property
    def adapter_fit(self) -> AdapterFit | None:
        """What its adapters must fit; None where it takes none."""
        fits = (AdapterFit(self.adapted(node).linears, each.max_rank) for node, each in self.adapters.items())
        return next(fits, None)

    def adapted(self, node: str) -> HoldsAdapters:
        """The engine of a node that takes adapters."""
        engine = self.engines[node]
        assert isinstance(engine, GenerationEngine | BatchEngine), "no other body has a line with adapters"
        return engine

    @property
    def max_context(self) -> int:
        """Tokens that prompt and output may have together, or a text that is read only.

        0 for a graph without an engine of its own.
        """
        decoding = [engine.limits.max_context for engine, _ in self._decoding()]
        texts = [engine.bounds for engine in self._of(BatchEngine) if engine.bounds.columns is None]
        reading = [bounds.max_tokens for bounds in texts]
        return min((*decoding, *reading), default=0)

    @property
    def cache_tokens(self) -> int:
        return sum(
            engine.counts().blocks_total * sessions[-1].shape.block_tokens
            for engine, sessions in self._decoding()
        )

    @property
    def cache_bytes(self) -> int:
        return sum(
            engine.counts().blocks_total * session.shape.block_bytes
            + engine.cache.states.pool.num_blocks * session.shape.state_bytes
            for engine, sessions in self._decoding()
            for session in sessions
        )

    @property
    def inputs(self) -> list[TensorPort]:
        """The tensors that a request must hold, for a graph that infers, under the names of requests."""
        engines = self._inferring()
        return [replace(port, name=name) for engine in engines for name, port in engine.inputs.items()]

    @property
    def outputs(self) -> list[TensorPort]:
        """The tensors that such a graph replies."""
        return [port for engine in self._inferring() for port in engine.outputs.values()]

    def opened(self, node: str) -> dict[str, dict[str, str]]:
        """How the models are run that lines of an engine node's body opened."""
        body = self.bodies.get(node)
        return {} if body is None else body.opened

    def guide_maker(self, node: str, params: SamplingParams) -> GuideMaker | None:
        """What restricts the outputs of an engine node to `params.guide`; takes long, in any thread.

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
        stepped = [self.bodies[node] for node in self.stepped]
        if any(body.warm() for body in stepped):
            return True
        for engine, sessions in self._decoding():
            engine.seed_cost(sessions[-1].step_times_s, sessions[-1].shape_change_s)
        for body in stepped:
            body.seed_cost()
        return False

    def close(self) -> None:
        for node, body in self.bodies.items():
            engine = self.engines.get(node)
            (engine or body).close()

    def _decoding(self) -> Iterator[tuple[GenerationEngine, list[DecoderSession]]]:
        yield from ((engine, self.bodies[node].sessions) for node, engine in self.stepped.items())

    def _inferring(self) -> Iterator[TensorEngine]:
        """The lines that read the request itself."""
        return self._of(TensorEngine) if self.task == "infer" else iter(())

    def _of(self, kind: type[AnyEngine]) -> Iterator[AnyEngine]:
        yield from (engine for engine in self.threaded.values() if isinstance(engine, kind))


def load_for_host(
    model: ModelFolder,
    graphs: Graphs | None = None,
    device: str | None = None,
    prefix_files: PrefixFiles | None = None,
    prepared: PreparedModels | None = None,
) -> HostModel:
    """The engines of a model, loaded and ready for a first step.  Blocks; raises BuildError.

    `device`, when given, replaces the devices in the graph.  Without `prefix_files` no engine has one;
    `prepared` is what engines made of models before.
    """
    graph = checked_graph(model, graphs)
    host_model = HostModel(model.name, model.version, graph.task)
    try:
        for binding in graph.bindings:
            if binding.body:
                _start(host_model, model, binding, device, prepared)
                if prefix_files is not None and binding.name in host_model.stepped:
                    _give_prefix_file(prefix_files, host_model, model, binding)
                if binding.name not in held_lines(graph.bindings):
                    _check_pooled_outputs(host_model, binding)
        check_contexts(host_model.engines, graph.bindings)
        _check_adapters(host_model, graph.bindings)
    except BuildError:
        host_model.close()
        raise
    return host_model


def _start(
    host_model: HostModel,
    model: ModelFolder,
    binding: Binding,
    device: str | None,
    prepared: PreparedModels | None,
) -> None:
    """Load the body of an engine node and the engine around it."""
    resources = Resources(EngineAddress(model.name, 0, binding.name), device=device, prepared=prepared)
    survive_cut_files()
    body = LiveBody(binding, live_nodes(model, binding.body, resources))
    host_model.bodies[binding.name] = body
    try:
        node = binding.type(binding.config, model.path)
        assert isinstance(node, StartsEngine), "a node type with a body starts an engine"
        engine = node.start(body)
        body.weights = MappedWeights(model.path)
    except Exception as error:
        raise BuildError([problem_of(binding, error)]) from error
    if engine.kind is EngineKind.STEPPED:
        host_model.stepped[binding.name] = engine
    else:
        host_model.threaded[binding.name] = engine


def _give_prefix_file(files: PrefixFiles, host_model: HostModel, model: ModelFolder, line: Binding) -> None:
    try:
        files.give(host_model.stepped[line.name], host_model.bodies[line.name], model, line)
    except ValueError as error:
        raise BuildError([problem_of(line, error)]) from error


def _check_adapters(host_model: HostModel, bindings: Sequence[Binding]) -> None:
    """Raise BuildError where the adapter of a request could be that of several models."""
    adapted = [binding for binding in bindings if binding.name in host_model.adapters]
    if len(adapted) > 1:
        fault = ValueError(f"`{adapted[0].name}` has `adapters` already, and one line of a graph may")
        raise BuildError([problem_of(adapted[1], fault)])


def _check_pooled_outputs(host_model: HostModel, binding: Binding) -> None:
    """Raise BuildError where a batcher returns outputs of tokens and the task needs texts, or vice versa."""
    engine = host_model.threaded.get(binding.name)
    if not isinstance(engine, BatchEngine) or engine.per_token == (host_model.task in OF_TOKENS):
        return
    gives, advice = ("tokens", "add a pool line") if engine.per_token else ("texts", "set `how: none`")
    fault = ValueError(
        f"its body gives outputs of {gives}, which is not what the task {host_model.task} is; {advice}"
    )
    raise BuildError([problem_of(binding, fault)])


def build_for_host(
    model: ModelFolder,
    sources: Mapping[str, GraphSource],
    device: str | None = None,
    prefix_files: PrefixFiles | None = None,
    prepared: PreparedModels | None = None,
) -> HostModel:
    """Builds a model that may name graphs of the repository's other models: those in `sources`."""
    return load_for_host(model, graphs_from(sources), device, prefix_files, prepared)

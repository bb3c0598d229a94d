"""The infer node: on the worker it submits tensors, in the engine host it makes the engine.

The tensors are those of the request, or the pooled outputs of another engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from graphs.errors import hint
from graphs.node import BodyContract, Node, NodeConfig
from pipelines.base.errors import EngineError
from pipelines.inference.contracts.tensor_contract import TensorPort
from pipelines.inference.engine.batching.tensor_engine import TensorBatching, TensorEngine
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.tensors.body.tensor_model import TensorModel, misfit
from pipelines.values.node_values import PooledOutputs, Tensors
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import TensorInput

if TYPE_CHECKING:
    from pipelines.nodes.body_interface import Body


class Infer(Node):
    """Runs tensor models in threads of the engine host: requests in turn between tenants, joined where
    `max_batch` allows it.
    """

    place = "engine"
    body = BodyContract(root="batch", gives=Tensors, result=Tensors)

    class Config(NodeConfig):
        max_batch: int = Field(
            default=1,
            ge=1,
            description="rows of one run: requests whose shapes differ in the first length alone are joined "
            "along it, for models whose rows do not depend on each other; 1: each request runs alone",
        )
        max_wait_ms: float = Field(
            default=0, ge=0, le=10_000, description="how long a run that is not full waits for more requests"
        )
        max_runs: int = Field(
            default=1,
            ge=1,
            le=256,
            description="runs at the same time; on openvino each has cores of its own up to `streams` of the "
            "model",
        )
        max_waiting: int = Field(default=256, ge=1, description="requests that may wait; more get a 429")
        outputs: list[str] | None = Field(
            default=None,
            min_length=1,
            description="which of the last line's tensors are the result; default: all",
        )

    def load(self, resources: Loading) -> None:
        self.address = resources.address

    def run(self, call: Running, request: TensorInput | Deferred[PooledOutputs]) -> Deferred[Tensors]:
        if isinstance(request, Deferred):
            return request.map(lambda pooled: call.infer(self.address, embeddings_tensor(pooled)))
        return call.infer(self.address, request.inputs, request.outputs)

    def start(self, body: Body) -> TensorEngine:
        """The engine around a loaded body, which it owns from now on.  Called once, in the engine host.

        Raises ValueError where two lines require different tensors of one name of the request, for `outputs`
        that the last line does not give, and where `max_batch` needs a length that is not free.
        """
        return start_engine(self.config, body)


def start_engine(config: Infer.Config, body: Body) -> TensorEngine:
    """The engine around the tensor models of a loaded body.  Raises ValueError, as `Infer.start` does."""
    models = {line.name: line.node for line in body.lines if isinstance(line.node, TensorModel)}
    outputs = _chosen(config.outputs, list(models.values())[-1].outputs)
    settings = TensorBatching(
        config.max_batch, config.max_wait_ms / 1000, config.max_runs, config.max_waiting
    )
    return TensorEngine(body, required(models), outputs, settings, body.profile)


def _chosen(names: list[str] | None, given: Mapping[str, TensorPort]) -> Mapping[str, TensorPort]:
    for name in names or ():
        if name not in given:
            raise ValueError(f"outputs: its last line gives no `{name}`{hint(name, given, 'given')}")
    return given if names is None else {name: given[name] for name in names}


def embeddings_tensor(pooled: PooledOutputs) -> Tensors:
    """Another engine's pooled outputs as one tensor.  Raises EngineError for vectors of tokens."""
    if isinstance(pooled.values, list):
        raise EngineError("an infer node needs a vector for each text; this model gives one for each token")
    return Tensors(embeddings=pooled.values)


def required(models: Mapping[str, TensorModel]) -> dict[str, TensorPort]:
    """The tensors that a request must hold, by name: those that the body's lines require, together."""
    feeds: dict[str, tuple[str, TensorPort]] = {}
    for line, model in models.items():
        for name, port in model.required:
            first, had = feeds.setdefault(name, (line, port))
            if misfit(had, port):
                raise ValueError(
                    f"the request's tensor `{name}` is {had} to the line `{first}` "
                    f"and {port} to the line `{line}`; rename one with `inputs`"
                )
    return {name: port for name, (_, port) in feeds.items()}

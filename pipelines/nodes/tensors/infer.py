"""The infer node: on the worker it hands tensors over, in the engine host it makes the engine.

Knows tensors of a request, or rows of another engine, and the border of its body; knows no model file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from graphs.node import BodyContract, Node, NodeConfig
from pipelines.errors import EngineError
from pipelines.host.backends.tensor_contract import TensorPort
from pipelines.host.engine.tensor_engine import TensorEngine
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.tensors.body.tensor_model import misfit
from pipelines.tasks import TensorInput
from pipelines.values import Deferred, PooledOutputs, Tensors

if TYPE_CHECKING:
    from pipelines.nodes.body_interface import Body
    from pipelines.nodes.line import Line


class Infer(Node):
    """Runs tensor models, one request after another, in a thread of the engine host."""

    place = "engine"
    body = BodyContract(root="batch", gives=Tensors, result=Tensors)

    class Config(NodeConfig):
        max_waiting: int = Field(default=256, ge=1, description="requests that may wait; more get a 429")

    def load(self, resources: Loading) -> None:
        self.address = resources.address

    def run(self, call: Running, request: TensorInput | Deferred[PooledOutputs]) -> Deferred[Tensors]:
        if isinstance(request, Deferred):
            return request.map(lambda rows: call.infer(self.address, rows_tensor(rows)))
        return call.infer(self.address, request.inputs, request.outputs)

    def start(self, body: Body) -> TensorEngine:
        """The engine around a loaded body, which it owns from now on.  Called once, in the engine host.

        Raises ValueError when two lines ask the request for different tensors of one name.
        """
        last = body.lines[-1].node
        inputs = requested(body.lines)
        return TensorEngine(body, inputs, last.outputs, self.config.max_waiting, body.profile)  # type: ignore[attr-defined]


def rows_tensor(rows: PooledOutputs) -> Tensors:
    """Another engine's rows as the one tensor of a batch.  Raises EngineError for rows of tokens."""
    if isinstance(rows.values, list):
        raise EngineError("an infer node needs a row for each text; this model gives one for each token")
    return Tensors(rows=rows.values)


def requested(lines: Sequence[Line]) -> dict[str, TensorPort]:
    """The tensors that a request must hold: what the lines ask of `batch`, together."""
    asked: dict[str, tuple[str, TensorPort]] = {}
    for line in lines:
        for name, port in line.node.asks:  # type: ignore[attr-defined]
            first, had = asked.setdefault(name, (line.name, port))
            if misfit(had, port):
                raise ValueError(
                    f"the request's tensor `{name}` is {had} to the line `{first}` "
                    f"and {port} to the line `{line.name}`; rename one with `inputs`"
                )
    return {name: port for name, (_, port) in asked.items()}

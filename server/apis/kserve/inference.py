"""One inference, whichever protocol brought it: tensors in, tensors out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Tensors
from pipelines.values.tasks import TensorInput
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.apis.kserve.messages import Parameters
from server.apis.pooling.pooling_call import run_pooling_call
from server.http.exchange import Exchange
from server.services.services import Services

Reply = TypeVar("Reply")
LONG_REPLY_BYTES = 1 << 16
"""The bytes of tensors above which a reply is encoded in a thread."""


@dataclass(frozen=True, slots=True)
class Inference:
    """A request.  `outputs`: name of each wanted tensor → whether it is to be sent as bytes; None: all."""

    id: str | None
    inputs: Tensors
    outputs: dict[str, bool] | None
    binary: bool
    parameters: Parameters

    def is_binary(self, output: str) -> bool:
        """Whether an output is sent as bytes."""
        return self.binary if self.outputs is None else self.outputs.get(output, self.binary)


async def run_tensors_call(
    services: Services, exchange: Exchange, pipeline: Pipeline, inference: Inference
) -> Tensors:
    """The outputs of a graph of tensor models.  Raises BraidError, and ClientGone when the client left."""
    outputs = None if inference.outputs is None else list(inference.outputs)

    def prepare() -> Call:
        return services.prepare(pipeline, TensorInput(inference.inputs, outputs), exchange)

    call = await asyncio.to_thread(prepare) if pipeline.takes_long else prepare()
    tensors: Tensors = (await run_pooling_call(call, exchange)).value
    return tensors


async def encoded(encode: Callable[[], Reply], tensors: Tensors) -> Reply:
    """What `encode` makes of `tensors`, in a thread where that takes long."""
    is_long = sum(array.nbytes for array in tensors.values()) > LONG_REPLY_BYTES
    return await asyncio.to_thread(encode) if is_long else encode()


class Named(Protocol):
    @property
    def name(self) -> str: ...


AnyNamed = TypeVar("AnyNamed", bound=Named)


def unique(tensors: Sequence[AnyNamed], kind: str) -> Iterator[AnyNamed]:
    """Gives the tensors.  Raises RequestError where two have one name."""
    names = set()
    for each in tensors:
        if each.name in names:
            raise RequestError(f"The request has two {kind}s of the name {each.name}", field=each.name)
        names.add(each.name)
        yield each

"""What a call gives to an engine, and how that is sent.  Knows nothing of what comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipelines.values import Tensors
from pipelines.wire.address import EngineAddress
from pipelines.wire.client import EngineClient
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.update_queue import PendingReply, UpdateQueue

GrammarWriter = Callable[[dict[str, Any], str], str]
"""A format (`pipelines.grammars.formats`) and the field it came from → a checked grammar, or RequestError."""


@dataclass(slots=True)
class Submission:
    """Prompts that a call gives to an engine.  `request_id` is None until they were sent.

    `write` makes grammars for it; None where its engine keeps to none.
    """

    address: EngineAddress
    prompts: list[list[int]]
    params: SamplingParams
    update_queue: UpdateQueue
    num_choices: int
    write: GrammarWriter | None = None
    request_id: int | None = None

    def send(self, client: EngineClient, request: Any) -> int:
        address = self.address
        return client.submit(
            address.model,
            address.instance_id,
            address.node,
            self.prompts,
            self.params,
            update_queue=self.update_queue,
            n=request.n,
            cache_salt=request.cache_salt,
        )


@dataclass(slots=True)
class TensorWork:
    """Tensors that a call gives to an engine, answered whole.  `request_id` is None until they were sent."""

    address: EngineAddress
    inputs: Tensors
    outputs: list[str] | None
    slot: PendingReply
    num_choices: int = 1
    request_id: int | None = None

    def send(self, client: EngineClient, request: Any) -> int:
        address = self.address
        return client.infer(
            address.model, address.instance_id, address.node, self.inputs, self.outputs, slot=self.slot
        )

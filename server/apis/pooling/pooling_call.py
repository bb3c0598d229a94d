"""Runs one pooling call: starts it, waits for its result, and closes it when the client disconnects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.base.cancellation import ClientGone
from pipelines.values.node_values import SparseVectors
from pipelines.worker.call import Call
from server.http.exchange import Exchange


@dataclass(frozen=True, slots=True)
class PoolingResult:
    """`value` is the result of the graph's task, computed from `num_tokens` input tokens, of which those of
    images are `num_image_tokens`.
    """

    value: Any
    num_tokens: int
    num_image_tokens: int = 0

    @property
    def num_values(self) -> int:
        """How many numbers the result holds."""
        vectors = getattr(self.value, "named", None) or {
            "": getattr(self.value, "vectors", self.value.values)
        }
        return sum(map(_num_values, vectors.values()))


def _num_values(values: Any) -> int:
    if isinstance(values, SparseVectors):
        return len(values.ids)
    return sum(map(np.size, values)) if isinstance(values, list) else int(np.size(values))


async def run_pooling_call(call: Call, exchange: Exchange) -> PoolingResult:
    """The result of a prepared call.

    Raises the call's BraidError, and ClientGone when the client disconnected.
    """
    exchange.at_end(call.close)
    exchange.when_gone(call.close)
    call.start()
    value = await call.answer()
    if value is None:
        raise ClientGone
    return PoolingResult(value, sum(call.prompt_lengths) + call.others.num_prompt, call.num_image_tokens)

"""One request for vectors, classes or scores, from what is asked to the answer.

Knows calls and exchanges; knows nothing of bodies or of the shape of replies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.tasks import PoolingInput
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.http.exchange import ClientGone, Exchange
from server.http.request_body import off_loop
from server.services import Services


@dataclass(frozen=True, slots=True)
class Answer:
    """`value` is what the task of the graph replies; `num_tokens` were read for it."""

    value: Any
    num_tokens: int

    @property
    def num_values(self) -> int:
        """Numbers that it holds."""
        values = self.value.values
        return sum(map(np.size, values)) if isinstance(values, list) else int(np.size(values))


async def ask(
    services: Services,
    exchange: Exchange,
    pipeline: Pipeline,
    asked: Callable[[], PoolingInput],
    is_long: bool,
) -> Answer:
    """The whole answer to what `asked` gives; long texts, and many, are read and tokenized in a thread.

    Raises the request's BraidError, and ClientGone when nobody waits any more: then nothing runs on.
    """

    def prepare() -> Call:
        return pipeline.prepare(asked(), services.client)

    call = await off_loop(prepare, is_long)
    exchange.at_end(call.close)
    exchange.when_gone(call.close)
    call.start()
    value = await call.answer()
    if value is None:
        raise ClientGone
    return Answer(value, sum(call.prompt_lengths))

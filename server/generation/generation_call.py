"""Starts the call of a generation request."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.http.exchange import Exchange
from server.services import Services


async def open_call(
    services: Services,
    pipeline: Pipeline,
    generation: Callable[[int], GenerationInput],
    exchange: Exchange,
    num_bytes: int,
) -> Call:
    """Start a call; `generation` returns its input, given the context length of the model.

    A long prompt is tokenized off the event loop, and sent from it.
    """

    def prepare() -> Call:
        return pipeline.prepare(generation(pipeline.max_context), services.client, exchange.tenant)

    call = await exchange.off_loop(prepare, num_bytes)
    call.start()
    return call

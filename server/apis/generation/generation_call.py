"""Starts the call of a generation request."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.apis.generation.request_images import Showing, fetch_images, size_of, with_files
from server.http.exchange import Exchange
from server.services.services import Services

Fit = Callable[[Callable[[GenerationInput], Call]], Call]
"""Makes a call by the function that it gets, which makes one of an input."""


async def open_call(
    services: Services,
    pipeline: Pipeline,
    generation: Callable[[int], GenerationInput],
    exchange: Exchange,
    num_bytes: int,
    request: Showing,
    fit: Fit | None = None,
) -> Call:
    """Start a call; `generation` returns its input, given the context length of the model.

    With `fit` that makes the call, of an input of its own.  Images of `request` that are elsewhere are
    fetched first.  A long prompt is tokenized off the event loop, and sent from it.
    """
    client = services.route(exchange)
    files = await fetch_images(services, client, pipeline, exchange, request, num_bytes)

    def make(request_input: GenerationInput) -> Call:
        return services.prepare(pipeline, with_files(request_input, files), exchange, client)

    def prepare() -> Call:
        return make(generation(pipeline.max_context)) if fit is None else fit(make)

    call = await exchange.off_loop(prepare, num_bytes + size_of(files))
    call.start()
    return call

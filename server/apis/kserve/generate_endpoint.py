"""Triton's generate extension: a text in, a text, vectors, classes or scores out, as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import falcon
import falcon.asgi
import msgspec

from pipelines.worker.model_choice import Ability
from pipelines.worker.pipeline import Pipeline
from server.apis.kserve.generate_body import read_generate
from server.apis.kserve.served import find_served
from server.apis.kserve.text import (
    GENERATING,
    TEXT_OUTPUT,
    TEXT_TASKS,
    TextQuestion,
    pooled_tensors,
    text_pieces,
)
from server.http.errors import public_error
from server.http.exchange import Exchange
from server.http.streaming import as_stream, first_piece, kept_alive
from server.services.model_lookup import find_pipeline
from server.services.services import Services

GENERATE = Ability(TEXT_TASKS, "take texts")
STREAM = Ability(GENERATING, "stream text")


class GenerateEndpoint:
    """POST v2/models/{name}/generate."""

    ability = GENERATE

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str | None = None
    ) -> None:
        exchange = req.scope["braid.exchange"]
        services = self._services.of(exchange)
        body = await services.admit(req, any_content=True)
        request_id, question = await exchange.off_loop(lambda: read_generate(body), len(body))
        served = find_served(services, name, version)
        pipeline = await find_pipeline(services, exchange, served.key, self.ability)
        head = {"model_name": name, "model_version": str(served.status.version)}
        head |= {} if request_id is None else {"id": request_id}
        await self.reply(exchange, pipeline, question, head, resp)

    async def reply(
        self,
        exchange: Exchange,
        pipeline: Pipeline,
        question: TextQuestion,
        head: Any,
        resp: falcon.asgi.Response,
    ) -> None:
        if pipeline.task in GENERATING:
            pieces = [piece async for piece in text_pieces(self._services, exchange, pipeline, question)]
            values: dict[str, Any] = {TEXT_OUTPUT: "".join(pieces)}
        else:
            tensors = await pooled_tensors(self._services, exchange, pipeline, question)
            values = {output: array.tolist() for output, array in tensors.items()}
        resp.content_type = falcon.MEDIA_JSON
        resp.data = msgspec.json.encode(head | values)


class GenerateStreamEndpoint(GenerateEndpoint):
    """POST v2/models/{name}/generate_stream: an event for each piece of the text."""

    ability = STREAM

    async def reply(
        self,
        exchange: Exchange,
        pipeline: Pipeline,
        question: TextQuestion,
        head: Any,
        resp: falcon.asgi.Response,
    ) -> None:
        pieces = text_pieces(self._services, exchange, pipeline, question)
        first = await first_piece(pieces, exchange)
        as_stream(resp, kept_alive(exchange, _events(exchange, head, first, pieces)))


async def _events(
    exchange: Exchange, head: Any, first: asyncio.Future[str | None], pieces: AsyncIterator[str]
) -> AsyncIterator[bytes]:
    try:
        piece = await first
        while piece is not None:
            yield _event(head | {TEXT_OUTPUT: piece})
            piece = await anext(pieces, None)
    except Exception as error:
        yield _event({"error": public_error(error, exchange.trace).message})


def _event(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"

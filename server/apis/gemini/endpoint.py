"""POST models/{name}:generateContent, :streamGenerateContent, :countTokens: Gemini's API over chat graphs."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import falcon
import falcon.asgi

from pipelines.worker.encoding import chat_ids
from pipelines.worker.model_choice import TEXT
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_chat
from server.apis.gemini.events import GeminiArray, GeminiEvents
from server.apis.gemini.parts import PartsBuilder, reply
from server.apis.gemini.reply_models import GeminiTokenCount, GenerateContentReply
from server.apis.gemini.request import GeminiChat, GeminiCountRequest, GeminiRequest
from server.apis.generation.generation_endpoint import GenerationEndpoint
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.generation.request_images import fetch_images, size_of, with_files
from server.apis.generation.requests.work_bytes import work_bytes
from server.http.request_body import parse
from server.services.model_lookup import find_pipeline
from server.services.services import Services

SSE = "sse"
"""The value of the parameter `alt` that asks for server-sent events."""


class GenerateContentEndpoint(GenerationEndpoint[GeminiChat, TextReplyContext, PartsBuilder]):
    """The reply as a whole; those below stream it."""

    body = GeminiChat
    id_prefix = ""
    keep_alive = b"\n"  # gemini-cli reads no comments, and an array has none
    streams: ClassVar[bool] = False

    async def on_post(  # type: ignore[override]
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str
    ) -> None:
        exchange = req.scope["braid.exchange"]
        raw = await self._services.admit(req)
        read = partial(parse, GeminiRequest, raw)
        request = await exchange.off_loop(lambda: read().chat(name, self.streams), len(raw))
        await self.reply_to(request, raw, req, resp)

    def check(self, request: GeminiChat, pipeline: Pipeline) -> None:
        check_chat(pipeline, request.calls_tools)

    def context(self, request: GeminiChat, reply_id: str, model: str) -> TextReplyContext:
        return TextReplyContext(
            id=reply_id,
            model=model,
            reasoning=request.source.shows_thoughts,
            num_drawn=request.num_choices,
            num_returned=request.num_returned,
        )

    def builder(self, context: TextReplyContext) -> PartsBuilder:
        return PartsBuilder(context)

    def full_reply(
        self, context: TextReplyContext, choices: list[PartsBuilder], counter: TokenCounter
    ) -> GenerateContentReply:
        candidates = [each.candidate(index, each.parts) for index, each in enumerate(choices)]
        return reply(context, candidates, counter)

    def chunks(self, context: TextReplyContext, counter: TokenCounter) -> GeminiEvents:
        return GeminiEvents(context, counter)


class EventsEndpoint(GenerateContentEndpoint):
    """The reply as server-sent events."""

    streams = True


class ArrayEndpoint(GenerateContentEndpoint):
    """The reply as elements of one JSON array."""

    streams = True
    media_type = falcon.MEDIA_JSON

    def chunks(self, context: TextReplyContext, counter: TokenCounter) -> GeminiArray:
        return GeminiArray(context, counter)


class StreamGenerateContentEndpoint:
    """The reply in pieces, in the form that the parameter `alt` asks for."""

    def __init__(self, services: Services) -> None:
        self._events = EventsEndpoint(services)
        self._array = ArrayEndpoint(services)

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        endpoint = self._events if req.get_param("alt") == SSE else self._array
        await endpoint.on_post(req, resp, name)


class GeminiCountEndpoint:
    """Counts the tokens of a prompt without generating."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        chat = await exchange.off_loop(lambda: parse(GeminiCountRequest, raw).chat(name), len(raw))
        pipeline = await find_pipeline(services, exchange, chat.model, TEXT)
        check_chat(pipeline, chat.calls_tools)
        files = await fetch_images(services, services.route(exchange), pipeline, exchange, chat, len(raw))

        def count() -> int:
            return len(chat_ids(pipeline, with_files(chat.generation(pipeline.max_context), files)))

        number = await exchange.off_loop(count, work_bytes(chat, len(raw)) + size_of(files))
        resp.content_type = falcon.MEDIA_JSON
        resp.data = GeminiTokenCount(total_tokens=number).to_json()

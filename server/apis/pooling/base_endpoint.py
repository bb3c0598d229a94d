"""The base of the pooling endpoints: embeddings, classes and scores.

A request passes four steps, top to bottom: `respond` parses it and finds its model, `_prepare` makes the
pipeline's call, `run_pooling_call` runs it, `_serialize` encodes the reply.  Each endpoint declares its body,
its input for the model and its reply.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.requests.generation.image_parts import check_media_settings
from pipelines.requests.pooling.base_request import BasePoolingRequest, ShownBy
from pipelines.values.tasks import PoolingInput
from pipelines.worker.call import Call
from pipelines.worker.model_choice import Ability
from pipelines.worker.pipeline import Pipeline
from server.apis.generation.generation_endpoint import requested_priority
from server.apis.generation.request_images import fetch_images, size_of, with_files
from server.apis.generation.requests.trusted_template import check_template
from server.apis.generation.requests.work_bytes import work_bytes
from server.apis.pooling.pooling_call import PoolingResult, run_pooling_call
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.dialects import Dialect
from server.http.exchange import LONG_BODY_BYTES, Exchange
from server.http.request_body import parse
from server.services.model_lookup import find_pipeline
from server.services.services import Services

Body = TypeVar("Body", bound=BasePoolingRequest)

LONG_TEXTS_BYTES = 1 << 10
"""A longer body may hold hundreds of texts, which are tokenized off the event loop."""
LONG_REPLY_VALUES = 1 << 14
"""A reply with more numbers is encoded in a thread."""


class PoolingEndpoint(Generic[Body]):
    """An endpoint that makes one call to an embedding or pooling model and replies as a whole."""

    kind: ClassVar[str] = ""  # the name of its body rules in a dialect
    body: ClassVar[type[BasePoolingRequest]]
    ability: ClassVar[Ability]
    id_prefix: ClassVar[str]

    def __init__(self, services: Services) -> None:
        self._services = services

    def check(self, request: Body, pipeline: Pipeline) -> None:
        """Raise RequestError when this model or this server does not support the request."""
        check_template(getattr(request, "chat_template", None), self._services.settings)
        if request.shows_images:
            check_media_settings(request.model_extra or {})

    def pooling_input(self, request: Body, pipeline: Pipeline) -> PoolingInput:
        """The input of the pipeline; may run in a thread.  Raises RequestError."""
        return request.pooling_input()

    def serialize(self, request: Body, pipeline: Pipeline, context: ReplyContext, value: Any) -> EncodedReply:
        """The reply; `value` is the result of the graph's task.  May run in a thread."""
        raise NotImplementedError

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self.respond(await self._services.admit(req), req, resp)

    async def respond(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Respond to a body that has been received."""
        exchange: Exchange = req.scope["braid.exchange"]
        request = await exchange.off_loop(lambda: self.read(raw, exchange.dialect), len(raw))
        await self.reply_to(request, len(raw), req, resp)

    def read(self, raw: bytes, dialect: Dialect) -> Body:
        """The checked request; may run in a thread.  Raises RequestError."""
        request: Any = parse(self.body, dialect.transform_body(self.kind, raw))
        return request  # type: ignore[no-any-return]

    async def reply_to(
        self, request: Body, body_bytes: int, req: falcon.asgi.Request, resp: falcon.asgi.Response
    ) -> None:
        """Reply to a checked request, whose body had `body_bytes` bytes."""
        exchange, created = req.scope["braid.exchange"], int(time.time())
        dialect: Dialect = exchange.dialect
        request.priority = requested_priority(req, request.priority)
        pipeline = await find_pipeline(self._services, exchange, request.model, self.ability)
        self.check(request, pipeline)
        try:
            call = await self._prepare(request, pipeline, exchange, body_bytes)
            result = await run_pooling_call(call, exchange)
            context = ReplyContext(
                self._reply_id(request, exchange),
                pipeline.name,
                created,
                result.num_tokens,
                result.num_image_tokens,
            )
            reply = await self._serialize(request, pipeline, context, result, body_bytes)
        except RequestError as error:
            raise dialect.translate_error(self.kind, error) from None
        resp.content_type, resp.data = reply.content_type, reply.data
        resp.set_headers(reply.headers)

    async def _prepare(self, request: Body, pipeline: Pipeline, exchange: Exchange, num_bytes: int) -> Call:
        """The pipeline's call; many or long texts, images and templates of requests are read off the loop."""
        services = self._services
        client = services.route(exchange)
        files = await fetch_images(services, client, pipeline, exchange, ShownBy(request), num_bytes)
        if num_bytes > LONG_TEXTS_BYTES:
            num_bytes = max(num_bytes, LONG_BODY_BYTES + 1)

        def prepare() -> Call:
            pooling_input = with_files(self.pooling_input(request, pipeline), files)
            return services.prepare(pipeline, pooling_input, exchange, client)

        return await exchange.off_loop(prepare, work_bytes(request, num_bytes) + size_of(files))

    def _reply_id(self, request: Body, exchange: Exchange) -> str:
        return self.id_prefix + (exchange.client_id or request.request_id or exchange.request_id)

    async def _serialize(
        self, request: Body, pipeline: Pipeline, context: ReplyContext, result: PoolingResult, num_bytes: int
    ) -> EncodedReply:
        repeats_texts = num_bytes > LONG_BODY_BYTES  # a reply may contain the request's documents
        is_long = repeats_texts or result.num_values > LONG_REPLY_VALUES
        serialize = partial(self.serialize, request, pipeline, context, result.value)
        return await asyncio.to_thread(serialize) if is_long else serialize()

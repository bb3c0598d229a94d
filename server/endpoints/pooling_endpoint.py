"""What the endpoints for vectors, classes and scores have in common: from the body to the answer.

Knows nothing of inputs or of the shape of replies: each endpoint names its own.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Generic, TypeVar

import falcon.asgi

from pipelines.errors import RequestError
from pipelines.tasks import PoolingInput
from pipelines.worker.pipeline import Pipeline
from server.dialects import dialect_of
from server.endpoints.generation_endpoint import asked_priority
from server.generation.requests.required_nodes import check_template
from server.http.exchange import Exchange
from server.http.request_body import LONG_BODY_BYTES, off_loop, parse_body, read_body
from server.model_lookup import Ability, find_pipeline
from server.pooling.pooling_call import ask
from server.pooling.replies.schema import ReplyContext, Written
from server.pooling.requests.pooled import PooledRequest
from server.services import Services

Body = TypeVar("Body", bound=PooledRequest)


class PoolingEndpoint(Generic[Body]):
    """An endpoint that asks a model once and answers at once."""

    kind: ClassVar[str] = ""  # what dialects call its bodies
    body: ClassVar[type[PooledRequest]]
    ability: ClassVar[Ability]
    id_prefix: ClassVar[str]

    def __init__(self, services: Services) -> None:
        self._services = services

    def check(self, request: Body, pipeline: Pipeline) -> None:
        """Raise RequestError when this model, or this server, cannot do what is asked."""
        check_template(getattr(request, "chat_template", None), self._services.settings)

    def pooling(self, request: Body, pipeline: Pipeline) -> PoolingInput:
        """What the model is asked.  Raises RequestError; long bodies are worked on in a thread."""
        return request.pooling()

    def written(self, request: Body, pipeline: Pipeline, head: ReplyContext, value: Any) -> Written:
        """The reply; `value` is what the task of the graph replies.  Long ones are written in a thread."""
        raise NotImplementedError

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        exchange.at_end(services.admission.enter())
        await self.answer(await read_body(req, services.settings.max_body_mb << 20), req, resp)

    async def answer(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Answer a body that was read."""
        dialect, is_long = dialect_of(req.path), len(raw) > LONG_BODY_BYTES
        request: Any = await parse_body(
            self.body, await off_loop(lambda: dialect.transform_body(self.kind, raw), is_long)
        )
        request.priority = asked_priority(req, request.priority)
        pipeline = find_pipeline(self._services, request.model, self.ability)
        self.check(request, pipeline)
        try:
            written = await self._asked(request, pipeline, req.scope["braid.exchange"], len(raw))
        except RequestError as error:
            raise dialect.translate_error(self.kind, error) from None
        resp.content_type, resp.data = written.content_type, written.data
        resp.set_headers(written.headers)

    async def _asked(self, request: Body, pipeline: Pipeline, exchange: Exchange, num_bytes: int) -> Written:
        created = int(time.time())
        reads_long = num_bytes > LONG_TEXTS_BYTES or request.compiles
        answer = await ask(
            self._services, exchange, pipeline, lambda: self.pooling(request, pipeline), reads_long
        )
        reply_id = self.id_prefix + (exchange.asked_id or request.request_id or exchange.request_id)
        head = ReplyContext(reply_id, pipeline.name, created, answer.num_tokens)
        repeats = num_bytes > LONG_BODY_BYTES  # a reply may hold its request's texts
        return await off_loop(
            lambda: self.written(request, pipeline, head, answer.value),
            repeats or answer.num_values > LONG_ANSWER_VALUES,
        )


LONG_TEXTS_BYTES = 1 << 10
"""A longer body may hold hundreds of texts, which are read and tokenized off the event loop."""
LONG_ANSWER_VALUES = 1 << 14
"""A reply of more numbers is written off the event loop."""

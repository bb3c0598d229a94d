"""POST responses, and POST responses/input_tokens: one request in, a response or its input's length out.

Knows nothing of how a request is translated, told or stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import falcon
import falcon.asgi

from pipelines.errors import RequestError
from pipelines.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.dialects import dialect_of
from server.generation.requests.required_nodes import check_chat
from server.http.exchange import Exchange
from server.http.request_body import parse_body, read_body
from server.http.streaming import as_stream, kept_alive
from server.model_lookup import TEXT, find_pipeline
from server.responses.background import Run
from server.responses.events import Telling
from server.responses.foreground import Answer, taken
from server.responses.prepare import Asked, ask
from server.responses.reply import first_response
from server.responses.request import CountInputRequest, ResponseRequest
from server.responses.schema import InputTokens, Response
from server.responses.stored import look, packed
from server.services import Services


class OfResponses:
    """What the endpoints share."""

    kind: ClassVar[str] = ""  # what dialects call its bodies

    def __init__(self, services: Services) -> None:
        self._services = services

    async def asked(
        self, req: falcon.asgi.Request, body: type[ResponseRequest]
    ) -> tuple[ResponseRequest, Pipeline, Asked]:
        """The request that a body holds, the model it names, and what it asks of it."""
        services = self._services
        req.scope["braid.exchange"].at_end(services.admission.enter())
        raw = await read_body(req, services.settings.max_body_mb << 20)
        request = await parse_body(body, dialect_of(req.path).read(self.kind, raw))
        pipeline = find_pipeline(services, request.model, TEXT)
        asked = await ask(services.keeper, request, len(raw))
        check_chat(pipeline, asked.translated.chat.calls_tools)
        return request, pipeline, asked

    def preparing(self, req: falcon.asgi.Request) -> Callable[[Pipeline, GenerationInput], Call]:
        """What walks a pipeline for a request."""
        amend = dialect_of(req.path).amend
        return lambda pipeline, generation: pipeline.prepare(amend(generation), self._services.client)


class Responses(OfResponses):
    """POST responses."""

    kind = "responses"

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange, keeper = req.scope["braid.exchange"], self._services.keeper
        request, pipeline, asked = await self.asked(req, ResponseRequest)
        if request.background and not keeper.keeps:
            raise RequestError(
                "background needs stored responses, and this server stores none (BRAID_RESPONSES_STORE)",
                field="background",
            )
        await self._check_id(request.request_id)
        call = await asked.call(pipeline, self.preparing(req))
        telling = self._telling(request, pipeline, asked, call)
        if request.background:
            await self._begin(telling, call, asked)
            await self._answer_background(resp, exchange, telling.response, bool(request.stream))
            return
        exchange.at_end(call.close)
        call.start()
        exchange.when_gone(call.close)
        answer = Answer(keeper, exchange, telling, call, asked)
        if request.stream:
            await answer.stream(resp)
        else:
            resp.content_type = falcon.MEDIA_JSON
            resp.data = await answer.whole()

    async def _check_id(self, response_id: str | None) -> None:
        """A name that the client chose must be free."""
        keeper = self._services.keeper
        if response_id is not None and keeper.keeps and await keeper(look, response_id) is not None:
            raise taken(response_id)

    def _telling(self, request: ResponseRequest, pipeline: Pipeline, asked: Asked, call: Call) -> Telling:
        stores = request.stores and self._services.keeper.keeps
        params = call.result.source.params
        response = first_response(request, asked.translated, pipeline.name, params, stores)
        chat = asked.translated.chat
        return Telling(
            response,
            sum(call.prompt_lengths),
            shows_reasoning=chat.include_reasoning is not False,
            parallel_calls=chat.parallel_tool_calls is not False,
        )

    async def _begin(self, telling: Telling, call: Call, asked: Asked) -> None:
        """Work on it whatever becomes of this exchange; it has a place of its own among the requests."""
        leave = self._services.admission.enter()
        try:
            call.start()
            run = Run(telling, call, asked.packed())
            if not await self._services.background.start(run, leave, asked.own_ids):
                raise taken(telling.response.id)
        except BaseException:
            call.close()
            leave()
            raise

    async def _answer_background(
        self, resp: falcon.asgi.Response, exchange: Exchange, response: Response, streams: bool
    ) -> None:
        if streams:
            events = self._services.background.follow(response.id, -1, exchange)
            as_stream(resp, kept_alive(exchange, events))
            return
        resp.content_type = falcon.MEDIA_JSON
        resp.data = packed(response.model_copy(update={"status": "queued", "output": []}))


class CountInput(OfResponses):
    """POST responses/input_tokens."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        _, pipeline, asked = await self.asked(req, CountInputRequest)
        call = await asked.call(pipeline, self.preparing(req))
        call.close()
        resp.content_type = falcon.MEDIA_JSON
        resp.data = InputTokens(input_tokens=sum(call.prompt_lengths)).model_dump_json().encode()

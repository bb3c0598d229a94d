"""POST responses, and POST responses/input_tokens, which returns the number of input tokens alone."""

from __future__ import annotations

from typing import ClassVar

import falcon
import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.model_choice import TEXT
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_chat
from server.apis.generation.generation_endpoint import requested_priority
from server.apis.responses.background import BackgroundRun
from server.apis.responses.database import ResponseDatabase
from server.apis.responses.events import ResponseEvents
from server.apis.responses.foreground import NOT_STORED, ForegroundResponse, id_in_use
from server.apis.responses.prepared_request import PreparedRequest, prepare_request
from server.apis.responses.reply import initial_response
from server.apis.responses.reply_models import InputTokenCount, Response
from server.apis.responses.request import CountInputTokensRequest, ResponseRequest
from server.apis.responses.store import encode_response
from server.base.replica_ids import with_replica
from server.http.exchange import Exchange
from server.http.request_body import parse
from server.http.streaming import as_stream, kept_alive
from server.services.affinity import response_id
from server.services.model_lookup import find_pipeline
from server.services.services import Services


class _ResponsesEndpoint:
    """Reads and prepares a Responses request."""

    kind: ClassVar[str] = ""  # the name of its body rules in a dialect

    def __init__(self, services: Services) -> None:
        self._services = services

    async def prepare(
        self, req: falcon.asgi.Request, body: type[ResponseRequest]
    ) -> tuple[ResponseRequest, Pipeline, PreparedRequest]:
        """The parsed request, the model that it names, and the request prepared for that model."""
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        transform = exchange.dialect.transform_body
        request = await exchange.off_loop(lambda: parse(body, transform(self.kind, raw)), len(raw))
        await services.note_affinity(req, raw)
        pipeline = await find_pipeline(services, exchange, request.model, TEXT)
        prepared = await prepare_request(services.response_store, exchange, request, len(raw))
        chat = prepared.translation.chat
        chat.priority = requested_priority(req, chat.priority)
        check_chat(pipeline, chat.calls_tools)
        return request, pipeline, prepared

    async def call(self, req: falcon.asgi.Request, pipeline: Pipeline, prepared: PreparedRequest) -> Call:
        """The model's call, with the defaults and the error texts of the request's dialect."""
        exchange: Exchange = req.scope["braid.exchange"]
        dialect = exchange.dialect
        client, transform = self._services.route(exchange), dialect.transform_generation

        def make_call(pipeline: Pipeline, generation: GenerationInput) -> Call:
            return pipeline.prepare(transform(generation), client, exchange.tenant, trace=exchange.trace)

        try:
            return await prepared.call(self._services, client, pipeline, exchange, make_call)
        except RequestError as error:
            raise dialect.translate_error(self.kind, error) from None


class ResponsesEndpoint(_ResponsesEndpoint):
    """POST responses."""

    kind = "responses"

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange, store = req.scope["braid.exchange"], self._services.response_store
        request, pipeline, prepared = await self.prepare(req, ResponseRequest)
        if request.background and not store.enabled:
            raise RequestError(
                "background needs stored responses, and this server stores none (BRAID_RESPONSES_STORE)",
                field="background",
            )
        await self._check_id(request.request_id)
        call = await self.call(req, pipeline, prepared)
        call.count_tool_calls("responses", bool(request.stream))
        response_events = self._response_events(request, pipeline, prepared, call, exchange.affinity)
        if request.background:
            await self._start_background(response_events, call, prepared, exchange)
            self._reply_background(resp, exchange, response_events.response, bool(request.stream))
            return
        exchange.at_end(call.close)
        call.start()
        exchange.when_gone(call.close)
        foreground = ForegroundResponse(store, exchange, response_events, call, prepared)
        if request.stream:
            await foreground.stream(resp)
        else:
            resp.content_type = falcon.MEDIA_JSON
            resp.data = await foreground.whole()
            if foreground.not_stored:
                resp.set_header(NOT_STORED, foreground.not_stored)

    async def _check_id(self, response_id: str | None) -> None:
        """Raise RequestError when a stored response has the id that the client chose."""
        store = self._services.response_store
        if response_id is None or not store.enabled:
            return
        if await store.run(ResponseDatabase.is_used, response_id):
            raise id_in_use(response_id)

    def _response_events(
        self,
        request: ResponseRequest,
        pipeline: Pipeline,
        prepared: PreparedRequest,
        call: Call,
        affinity: str | None,
    ) -> ResponseEvents:
        stores = request.stores and self._services.response_store.enabled
        new_id = with_replica(response_id(affinity), self._services.settings.replica)
        params = call.result.source.params
        response = initial_response(request, prepared.translation, pipeline.name, params, stores, new_id)
        chat = prepared.translation.chat
        return ResponseEvents(
            response,
            sum(call.prompt_lengths),
            shows_reasoning=chat.include_reasoning is not False,
            parallel_calls=chat.parallel_tool_calls is not False,
            tools=prepared.translation.tools,
            compacts=prepared.translation.compacts,
        )

    async def _start_background(
        self, response_events: ResponseEvents, call: Call, prepared: PreparedRequest, exchange: Exchange
    ) -> None:
        """Start a run that outlives this exchange and counts as a request of its own for admission."""
        services, trace = self._services, exchange.trace
        release = services.admission.enter(exchange.tenant)

        def at_end() -> None:
            release()
            services.requests.ended(trace)

        try:
            call.start()
            items = prepared.encoded_items()
            run = BackgroundRun(response_events, call, items, exchange.account, trace)
            if not await services.background.start(run, at_end, prepared.own_ids):
                raise id_in_use(response_events.response.id)
        except BaseException:
            call.close()
            release()
            raise
        trace.runs_on = True

    def _reply_background(
        self, resp: falcon.asgi.Response, exchange: Exchange, response: Response, streams: bool
    ) -> None:
        if streams:
            events = self._services.background.follow(response.id, -1, exchange)
            as_stream(resp, kept_alive(exchange, events))
            return
        resp.content_type = falcon.MEDIA_JSON
        resp.data = encode_response(response.model_copy(update={"status": "queued", "output": []}))


class CountInputTokensEndpoint(_ResponsesEndpoint):
    """POST responses/input_tokens."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        _, pipeline, prepared = await self.prepare(req, CountInputTokensRequest)
        call = await self.call(req, pipeline, prepared)
        call.close()
        resp.content_type = falcon.MEDIA_JSON
        resp.data = InputTokenCount(input_tokens=sum(call.prompt_lengths)).model_dump_json().encode()

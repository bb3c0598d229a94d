"""Prepares requests for responses and makes their calls, whether they came over HTTP or over a WebSocket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.model_choice import TEXT
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_chat, of_type
from server.apis.generation.generation_endpoint import requested_priority
from server.apis.generation.replies.call_trace import trace_of, wants_trace
from server.apis.responses.events import ALL, COMPACTION, NOTHING, ResponseEvents
from server.apis.responses.prepared_request import PreparedRequest, RecentItems, prepare_request
from server.apis.responses.reply import initial_response
from server.apis.responses.request import ResponseRequest
from server.base.replica_ids import with_replica
from server.http.exchange import Exchange
from server.services.affinity import response_id
from server.services.model_lookup import find_pipeline
from server.services.services import Services


@dataclass(frozen=True, slots=True)
class AskedResponse:
    """A request, the model that it names, and the request prepared for that model."""

    request: ResponseRequest
    pipeline: Pipeline
    prepared: PreparedRequest
    wants_trace: bool = False


class Responder:
    """`kind` is the name of a request's body rules in a dialect."""

    def __init__(self, services: Services, kind: str = "responses") -> None:
        self._services = services
        self._kind = kind

    async def prepare(
        self,
        req: falcon.asgi.Request,
        exchange: Exchange,
        request: ResponseRequest,
        num_bytes: int,
        recent: Mapping[str, RecentItems] | None = None,
    ) -> AskedResponse:
        """Find the model of a request of `num_bytes`, and prepare it; `req` has the headers.

        `recent`: the items of responses that may be continued without being stored.  Raises RequestError.
        """
        services = self._services
        pipeline = await find_pipeline(services, exchange, request.model, TEXT)
        takes_images = any(of_type(pipeline, "images"))
        prepared = await prepare_request(
            services.response_store, exchange, request, num_bytes, takes_images, recent or {}
        )
        chat = prepared.translation.chat
        chat.priority = requested_priority(req, chat.priority)
        check_chat(pipeline, chat.calls_tools)
        return AskedResponse(request, pipeline, prepared, wants_trace(req, services.settings))

    async def call(self, exchange: Exchange, asked: AskedResponse) -> Call:
        """The model's call, with the defaults and the error texts of the exchange's dialect."""
        dialect = exchange.dialect
        services, transform = self._services, dialect.transform_generation
        client = services.route(exchange)

        def make_call(pipeline: Pipeline, generation: GenerationInput) -> Call:
            return services.prepare(pipeline, transform(generation), exchange, client)

        try:
            return await asked.prepared.call(services, client, asked.pipeline, exchange, make_call)
        except RequestError as error:
            raise dialect.translate_error(self._kind, error) from None

    def events(
        self, exchange: Exchange, asked: AskedResponse, call: Call, discards: bool = False
    ) -> ResponseEvents:
        """The events of the response, without output where it `discards` that."""
        request, translation = asked.request, asked.prepared.translation
        stores = request.stores and self._services.response_store.enabled
        new_id = with_replica(response_id(exchange.affinity), self._services.settings.replica)
        params = call.sampling_params
        response = initial_response(request, translation, asked.pipeline.name, params, stores, new_id)
        chat = translation.chat
        events = ResponseEvents(
            response,
            sum(call.prompt_lengths),
            shows_reasoning=chat.include_reasoning is not False,
            parallel_calls=chat.parallel_tool_calls is not False,
            tools=translation.tools,
            others=lambda: call.others,
            shows=COMPACTION if translation.compacts else NOTHING if discards else ALL,
        )
        if asked.wants_trace:
            events.trace = trace_of(call, exchange)
        return events

"""POST responses, responses/compact and responses/input_tokens, and a WebSocket at responses."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import falcon
import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.worker.call import Call
from server.apis.responses.background import BackgroundRun
from server.apis.responses.database import ResponseDatabase
from server.apis.responses.event_encoding import KEEP_ALIVE
from server.apis.responses.events import ResponseEvents
from server.apis.responses.foreground import NOT_STORED, ForegroundResponse, id_in_use
from server.apis.responses.prepared_request import PreparedRequest
from server.apis.responses.reply_models import CompactedResponse, InputTokenCount, Response
from server.apis.responses.request import CompactRequest, CountInputTokensRequest, ResponseRequest
from server.apis.responses.responder import AskedResponse, Responder
from server.apis.responses.socket import ResponsesSocket
from server.apis.responses.store import encode_response
from server.http.admission import Admission
from server.http.errors import UpgradeRequired
from server.http.exchange import Exchange
from server.http.request_body import parse
from server.http.socket_exchange import SocketExchange, selected_subprotocol
from server.http.streaming import as_stream, kept_alive
from server.services.services import Services

AnyRequest = TypeVar("AnyRequest", bound=ResponseRequest)


class _ResponsesEndpoint:
    """Reads and prepares a Responses request."""

    kind: ClassVar[str] = ""  # the name of its body rules in a dialect

    def __init__(self, services: Services) -> None:
        self._services = services
        self._responder = Responder(services, self.kind)

    async def read(self, req: falcon.asgi.Request, body: type[AnyRequest]) -> tuple[AnyRequest, int]:
        """The parsed request, and the length of its body."""
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        transform = exchange.dialect.transform_body
        request = await exchange.off_loop(lambda: parse(body, transform(self.kind, raw)), len(raw))
        await services.note_affinity(req, raw)
        return request, len(raw)

    async def prepare(self, req: falcon.asgi.Request, body: type[ResponseRequest]) -> AskedResponse:
        request, num_bytes = await self.read(req, body)
        return await self._responder.prepare(req, req.scope["braid.exchange"], request, num_bytes)


class ResponsesEndpoint(_ResponsesEndpoint):
    """POST responses, and a WebSocket at responses."""

    kind = "responses"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        settings = services.settings
        self._places = Admission(settings.max_sockets, settings.key_share, "has {} WebSockets", "max_sockets")

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange, store = req.scope["braid.exchange"], self._services.response_store
        asked = await self.prepare(req, ResponseRequest)
        request, prepared = asked.request, asked.prepared
        if request.background and not store.enabled:
            raise RequestError(
                "background needs stored responses, and this server stores none (BRAID_RESPONSES_STORE)",
                field="background",
            )
        await self._check_id(request.request_id)
        call = await self._responder.call(exchange, asked)
        call.count_tool_calls("responses", bool(request.stream))
        response_events = self._responder.events(exchange, asked, call)
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

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """A handshake that nothing here speaks; clients with another way take that at once."""
        raise UpgradeRequired("GET responses is for WebSockets; send a response with POST")

    async def on_websocket(self, req: falcon.asgi.Request, ws: falcon.asgi.WebSocket) -> None:
        exchange: SocketExchange = req.scope["braid.exchange"]
        leave = self._places.enter(exchange.tenant)
        try:
            await ws.accept(selected_subprotocol(ws.subprotocols))
            await ResponsesSocket(self._services, req, ws, exchange).run()
        finally:
            leave()

    async def _check_id(self, response_id: str | None) -> None:
        """Raise RequestError when a stored response has the id that the client chose."""
        store = self._services.response_store
        if response_id is None or not store.enabled:
            return
        if await store.run(ResponseDatabase.is_used, response_id):
            raise id_in_use(response_id)

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
            as_stream(resp, kept_alive(exchange, events, KEEP_ALIVE))
            return
        resp.content_type = falcon.MEDIA_JSON
        resp.data = encode_response(response.model_copy(update={"status": "queued", "output": []}))


class CountInputTokensEndpoint(_ResponsesEndpoint):
    """POST responses/input_tokens; an input may be longer than the model takes."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        asked = await self.prepare(req, CountInputTokensRequest)
        num_tokens = await asked.prepared.count(self._services, asked.pipeline, exchange)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = InputTokenCount(input_tokens=num_tokens).model_dump_json().encode()


class CompactEndpoint(_ResponsesEndpoint):
    """POST responses/compact: what the user said, and a summary in the place of the whole conversation."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        asked_for, num_bytes = await self.read(req, CompactRequest)
        asked = await self._responder.prepare(req, exchange, asked_for.with_trigger(), num_bytes)
        call = await self._responder.call(exchange, asked)
        exchange.at_end(call.close)
        response_events = self._responder.events(exchange, asked, call)
        call.start()
        exchange.when_gone(call.close)
        store = self._services.response_store
        await ForegroundResponse(store, exchange, response_events, call, asked.prepared).whole()
        said = [item for item in asked.prepared.items if item.get("role") == "user"]
        response = response_events.response
        resp.content_type = falcon.MEDIA_JSON
        compacted = CompactedResponse(
            id=response.id,
            created_at=response.created_at,
            output=[*said, *response.output],
            usage=response.usage,
        )
        resp.data = compacted.model_dump_json().encode()

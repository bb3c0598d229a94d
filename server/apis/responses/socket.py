"""Responses over a WebSocket: each `response.create` of the client is one request, its events are texts.

The latest response can be continued by its id without being stored, so that a turn sends only what is new.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import falcon
import falcon.asgi
import msgspec
from pydantic import ValidationError

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import BraidError, RequestError
from pipelines.requests.fields.unknown_fields import collect_unknown, unknown_fields
from pipelines.requests.fields.validation import from_validation
from pipelines.telemetry.http_requests import count_ignored_fields
from server.apis.responses.event_encoding import encode
from server.apis.responses.foreground import ForegroundResponse
from server.apis.responses.output_items import Event
from server.apis.responses.prepared_request import PreparedRequest, RecentItems
from server.apis.responses.request import ResponseRequest
from server.apis.responses.responder import Responder
from server.http.errors import public_error
from server.http.exchange import Exchange
from server.http.request_body import check_structure
from server.http.socket_exchange import SocketExchange
from server.services.affinity import affinity_key
from server.services.services import Services

GOING_AWAY = 1001
"""The close code of a socket that its client does not use."""
CREATE = "response.create"
QUIET_S = 10.0
"""After this long without an event one is sent that says nothing."""
QUIET = '{"type":"keepalive"}'


class ResponsesSocket:
    """One socket from its first event to its last; errors do not end it."""

    def __init__(
        self, services: Services, req: falcon.asgi.Request, ws: falcon.asgi.WebSocket, socket: SocketExchange
    ) -> None:
        self._services = services
        self._responder = Responder(services)
        self._req = req
        self._ws = ws
        self._socket = socket
        self._recent: dict[str, RecentItems] = {}

    async def run(self) -> None:
        """Returns when the client has left, or the socket was closed."""
        with contextlib.suppress(falcon.WebSocketDisconnected, ClientGone):
            while await self._turn():
                pass

    async def _turn(self) -> bool:
        """Take one event; False once the socket was idle for too long."""
        idle_s = self._services.settings.socket_idle_s
        try:
            async with asyncio.timeout(idle_s):
                text = await self._ws.receive_text()
        except TimeoutError:
            await self._ws.close(GOING_AWAY, f"no event came for {idle_s:g} seconds")
            return False
        except falcon.PayloadTypeError:
            await self._report(RequestError("Events are texts of JSON"))
        else:
            await self._take(text)
        return True

    async def _take(self, text: str) -> None:
        part = self._socket.part()
        collect_unknown(self._services.settings.strict_fields)
        try:
            self._services.enter(part)
            await self._respond(part, text)
        except (falcon.WebSocketDisconnected, ClientGone):
            raise
        except Exception as error:
            await self._report(public_error(error, part.trace))
        finally:
            part.close()
            self._services.requests.ended(part.trace)
            self._count_ignored()

    def _count_ignored(self) -> None:
        unknown = unknown_fields()
        if unknown is not None and unknown.count:
            count_ignored_fields(self._req.path, unknown.count)

    async def _respond(self, part: Exchange, text: str) -> None:
        event = await part.off_loop(lambda: read_event(text), len(text))
        generates = event.pop("generate", True) is not False
        request = checked(event)
        if request.background:
            raise RequestError("background responses are for POST responses", field="background")
        if not generates:
            request.max_output_tokens = 1
        if self._services.settings.num_engines > 1:
            part.affinity = affinity_key(self._req.headers, event)
        asked = await self._responder.prepare(self._req, part, request, len(text), self._recent)
        call = await self._responder.call(part, asked)
        part.at_end(call.close)
        call.count_tool_calls("responses", streams=True)
        events = self._responder.events(part, asked, call, discards=not generates)
        call.start()
        part.when_gone(call.close)
        await self._send(
            ForegroundResponse(self._services.response_store, part, events, call, asked.prepared).batches()
        )
        self._remember(asked.prepared, events.response.id, events.response.output)

    def _remember(self, prepared: PreparedRequest, response_id: str, output: list[dict[str, Any]]) -> None:
        """What is too long to be one body is not held: the client sends its conversation again."""
        num_bytes = prepared.num_bytes + len(msgspec.json.encode(output))
        is_held = num_bytes <= self._services.arriving.max_bytes
        self._recent = {response_id: RecentItems([*prepared.items, *output], num_bytes)} if is_held else {}

    async def _send(self, batches: AsyncIterator[list[Event]]) -> None:
        pending = asyncio.ensure_future(anext(batches, None))
        try:
            while True:
                done, _ = await asyncio.wait({pending}, timeout=QUIET_S)
                if not done:
                    await self._ws.send_text(QUIET)
                    continue
                if (events := pending.result()) is None:
                    return
                for event in events:
                    await self._ws.send_text(encode(event).decode())
                pending = asyncio.ensure_future(anext(batches, None))
        finally:
            pending.cancel()

    async def _report(self, error: BraidError) -> None:
        """An error before the first event of a response."""
        reported = {"type": error.kind, "code": error.word, "message": error.message, "param": error.field}
        event = {"type": "error", "status": error.status, "error": reported}
        await self._ws.send_text(encode(event).decode())


def read_event(text: str) -> dict[str, Any]:
    """The fields of a request in an event.  Raises RequestError."""
    data = text.encode("utf-8", "replace")
    check_structure(data)
    try:
        event = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"Invalid JSON: {error}") from None
    if not isinstance(event, dict) or event.pop("type", None) != CREATE:
        raise RequestError(f"An event must be an object with the type {CREATE}", field="type")
    return event


def checked(fields: dict[str, Any]) -> ResponseRequest:
    """The request with these fields.  Raises RequestError."""
    try:
        return ResponseRequest.model_validate(fields)
    except ValidationError as error:
        raise from_validation(error) from None

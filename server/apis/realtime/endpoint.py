"""A WebSocket at realtime: live speech → its text while it is spoken."""

from __future__ import annotations

import falcon.asgi

from pipelines.base.errors import NotFound
from pipelines.telemetry.speech import count_sockets
from server.apis.realtime.event_loop import EventLoop, Manner
from server.http.admission import Admission
from server.http.socket_exchange import SocketExchange, selected_subprotocol
from server.process.socket_options import has_sockets
from server.services.services import Services

OPENAI_SUBPROTOCOL = "realtime"
BETA = "OpenAI-Beta"


class RealtimeEndpoint:
    """Sockets hold no place among the worker's requests; at most `max_sockets` are open."""

    def __init__(self, services: Services) -> None:
        self._services = services
        settings = services.settings
        self._places = Admission(settings.max_sockets, settings.key_share, "has {} WebSockets", "max_sockets")

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        hint = "" if has_sockets() else "; install what it needs with pip install 'braid-server[audio]'"
        raise NotFound(f"Not Found: {req.path} is for WebSockets{hint}")

    async def on_websocket(self, req: falcon.asgi.Request, ws: falcon.asgi.WebSocket) -> None:
        exchange: SocketExchange = req.scope["braid.exchange"]
        leave = self._places.enter(exchange.tenant)
        count_sockets(1)
        try:
            await ws.accept(selected_subprotocol(ws.subprotocols))
            is_older = "realtime" in (req.get_header(BETA) or "")
            is_transcription = req.get_param("intent") == "transcription"
            is_openai = is_older or is_transcription or OPENAI_SUBPROTOCOL in ws.subprotocols
            manner = Manner(is_openai, is_older, is_transcription)
            await EventLoop(self._services, ws, exchange, req.get_param("model") or None, manner).run()
        finally:
            leave()
            count_sockets(-1)

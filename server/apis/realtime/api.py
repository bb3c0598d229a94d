"""The WebSocket of live speech; OpenAPI cannot describe it."""

from __future__ import annotations

from server.apis.realtime.endpoint import RealtimeEndpoint
from server.services.api import Api

API = Api("realtime", sockets={"/realtime": RealtimeEndpoint})

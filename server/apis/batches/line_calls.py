"""Runs a line of a batch through the code of its endpoint, in this process: an HTTP request without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import falcon
import falcon.asgi

from pipelines.wire.sampling_params import BACKGROUND
from server.dialects import Dialects
from server.http.exchange import Exchange, Message
from server.keys.key_file import NamedKey
from server.keys.limits import KeyBound, KeyLimited
from server.services.services import Services

PRIORITY = str(BACKGROUND).encode()
MAX_WAIT_S = 5.0
"""How long a line waits for its key's limits before it looks again: others may have had what was left."""
TENANT = "batch:"
"""The prefix of a batch's tenant, before the account: what a batch holds of the engine does not count
against its key's other requests.
"""


@dataclass(frozen=True, slots=True)
class LineReply:
    status: int
    request_id: str
    body: bytes
    is_json: bool


@dataclass(slots=True)
class _Reply:
    """What the application sends."""

    status: int = 0
    content_type: str = ""
    pieces: list[bytes] = field(default_factory=list)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = dict(message["headers"])
            self.content_type = headers.get(b"content-type", b"").decode()
        elif message["type"] == "http.response.body":
            self.pieces.append(message.get("body", b""))


class LineCalls:
    """Requests to an application with the endpoints of batches, and neither keys nor counts of requests.

    `make_app` makes it when the first line comes.  A named key's limits hold for the lines of its batches
    too: a line waits until its key has room.
    """

    def __init__(
        self, services: Services, make_app: Callable[[], falcon.asgi.App[Any, Any]], dialects: Dialects
    ) -> None:
        self._services = services
        self._make_app = make_app
        self._dialects = dialects
        self._app: falcon.asgi.App[Any, Any] | None = None

    async def post(self, path: str, body: bytes, account: str) -> LineReply:
        """The reply to a body.  Cancelled, it ends what runs in the engine."""
        self._app = self._app or self._make_app()
        services = self._services
        key = None if services.key_file is None else services.key_file.of_account(account)
        bounds = [] if key is None else await self._room_of(key)
        pieces, never = [body], asyncio.Event()

        async def receive() -> Message:
            if not pieces:
                await never.wait()
            return {"type": "http.request", "body": pieces.pop(), "more_body": False}

        reply = _Reply()
        error_words = services.settings.error_codes == "openai"
        exchange = Exchange(receive, reply.send, services.work, self._dialects.of(path), error_words)
        exchange.account, exchange.tenant = account, TENANT + account
        exchange.key, exchange.bounds = key, bounds
        exchange.trace.account = account
        try:
            await self._app(_scope(path, len(body), exchange), exchange.receive, reply.send)
        finally:
            exchange.close()
            services.usage.add(exchange.trace)
        is_json = reply.content_type.startswith(falcon.MEDIA_JSON)
        return LineReply(reply.status, exchange.request_id, b"".join(reply.pieces), is_json)

    async def _room_of(self, key: NamedKey) -> list[KeyBound]:
        """The bounds of a key once a line was counted, which waits until the key's limits allow it."""
        while True:
            try:
                return self._services.limits.enter(key)
            except KeyLimited as error:
                await asyncio.sleep(min(error.retry_after_s or 1, MAX_WAIT_S))


def _scope(path: str, num_bytes: int, exchange: Exchange) -> dict[str, Any]:
    headers = [
        (b"host", b"batch"),
        (b"content-type", falcon.MEDIA_JSON.encode()),
        (b"content-length", str(num_bytes).encode()),
        (b"x-vllm-priority", PRIORITY),
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("", 0),
        "server": ("batch", 0),
        "braid.exchange": exchange,
    }

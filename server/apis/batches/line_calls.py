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
from server.http.work_queue import Work

PRIORITY = str(BACKGROUND).encode()
TENANT = "batch:"
"""Before the account: what a batch holds of the engine does not count against its key's other requests."""


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

    `make_app` makes it when the first line comes.
    """

    def __init__(
        self,
        make_app: Callable[[], falcon.asgi.App[Any, Any]],
        work: Work,
        dialects: Dialects,
        error_words: bool,
    ) -> None:
        self._make_app = make_app
        self._dialects = dialects
        self._work = work
        self._error_words = error_words
        self._app: falcon.asgi.App[Any, Any] | None = None

    async def post(self, path: str, body: bytes, account: str) -> LineReply:
        """The reply to a body.  Cancelled, it ends what runs in the engine."""
        self._app = self._app or self._make_app()
        pieces, never = [body], asyncio.Event()

        async def receive() -> Message:
            if not pieces:
                await never.wait()
            return {"type": "http.request", "body": pieces.pop(), "more_body": False}

        reply = _Reply()
        exchange = Exchange(receive, reply.send, self._work, self._dialects.of(path), self._error_words)
        exchange.account, exchange.tenant = account, TENANT + account
        exchange.trace.account = account
        try:
            await self._app(_scope(path, len(body), exchange), exchange.receive, reply.send)
        finally:
            exchange.close()
        is_json = reply.content_type.startswith(falcon.MEDIA_JSON)
        return LineReply(reply.status, exchange.request_id, b"".join(reply.pieces), is_json)


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

"""What Ray Serve's proxy does before it chooses a replica: find what a request belongs to, in its body too.

Serve's proxy routes by one header and reads no bodies.  Two variables of its environment
(docs/scaling.md) put this in front of it: it adds that header from `affinity_key`, and from the ids of stored
responses.  The request itself goes on as it came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from server.affinity import affinity_key, fields_of
from server.http.request_ids import clean_id
from server.responses.replica_ids import replica_of

if TYPE_CHECKING:
    from server.app import App, Scope
    from server.http.exchange import Message, Receive, Send

HEADER = b"x-braid-session"
"""What RAY_SERVE_SESSION_ID_HEADER_KEY must be; what clients send by this name is removed."""
REQUEST_ID = b"x-request-id"
"""Serve gives each request without one an id of its own form, which would be in the ids of replies."""
REPLICA = "replica "
"""Before the name of the replica that stores what a request names."""
MAX_BODY = 1 << 20
"""A larger body is not searched: its request has the key of its headers alone."""
STORED = re.compile(r"/v1/responses/([^/]+)")


class SessionFinder:
    """An ASGI application in front of another one."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        read = await _beginning(receive) if _has_json(scope) else []
        body = b"".join(message.get("body", b"") for message in read)
        fields = fields_of(body) if len(body) <= MAX_BODY else {}
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != HEADER]
        key = session_of(scope, fields)
        if key is not None:
            headers.append((HEADER, key.encode()))
        if all(name.lower() != REQUEST_ID for name, _ in headers):
            headers.append((REQUEST_ID, _request_id(fields).encode()))
        read.reverse()

        async def receive_again() -> Message:
            return read.pop() if read else await receive()

        await self._app({**scope, "headers": headers}, receive_again, send)


def session_of(scope: Scope, fields: Mapping[str, Any]) -> str | None:
    """What Serve's router goes by: the replica that stores a response, else the session or conversation."""
    in_path = STORED.match(scope["path"])
    stored = in_path[1] if in_path else fields.get("previous_response_id")
    replica = replica_of(stored) if isinstance(stored, str) else None
    if replica is not None:
        return REPLICA + replica
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return affinity_key(headers, fields)


def middlewares() -> list[Any]:
    """What RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH names."""
    from starlette.middleware import Middleware  # of Ray Serve's own

    return [Middleware(SessionFinder)]


def _request_id(fields: Mapping[str, Any]) -> str:
    """That of the body, else a new one as Braid's own."""
    chosen = fields.get("request_id")
    return clean_id(chosen if isinstance(chosen, str) else None) or token_hex(16)


def _has_json(scope: Scope) -> bool:
    types = [value for name, value in scope["headers"] if name.lower() == b"content-type"]
    return scope["type"] == "http" and any(b"json" in each.lower() for each in types)


async def _beginning(receive: Receive) -> list[Message]:
    """A request's messages up to the end of its body, or until they have more than MAX_BODY bytes."""
    messages, size, more = [], 0, True
    while more and size <= MAX_BODY:
        messages.append(await receive())
        size += len(messages[-1].get("body", b""))
        more = bool(messages[-1].get("more_body"))
    return messages

"""What Ray Serve's proxy does before it chooses a replica: find what a request belongs to, in its body too.

Serve's proxy routes by one header and reads no bodies.  Two variables of its environment
(docs/scaling.md) put this in front of it: it adds that header from `affinity_key`, and from the ids of stored
responses.  The request itself goes on as it came, to another replica where the first one has no engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pipelines.requests.fields.request_ids import clean_id
from server.base.replica_ids import replica_of
from server.ray_attempt import Attempt
from server.services.affinity import affinity_key, fields_of

if TYPE_CHECKING:
    from server.app import App, Scope
    from server.http.exchange import Message, Receive, Send

HEADER = b"x-braid-session"
"""What RAY_SERVE_SESSION_ID_HEADER_KEY must be; what clients send by this name is removed."""
REQUEST_ID = b"x-request-id"
"""Serve gives each request without one an id of its own form, which would be in the ids of replies."""
REPLICA = "replica "
"""The prefix of the name of the replica that stores what a request names."""
MAX_BODY = 1 << 20
"""A larger body is not searched: its request has the key of its headers alone, and is sent once."""
AGAIN = re.compile(r"again (\d) (.+)", re.DOTALL)
RESENDS = 2
"""How often a request with a JSON body is sent again."""
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
        key, request_id = session_of(scope, fields), _request_id(scope, fields)
        for number in range(1 + _resends(read, key)):
            named = again(number, key or request_id) if number else key
            attempt = Attempt(read, receive, send, is_last=number == _resends(read, key))
            headers = _headers(scope, named, request_id)
            await self._app({**scope, "headers": headers}, attempt.receive, attempt.send)
            if not attempt.has_failed:
                return


def session_of(scope: Scope, fields: Mapping[str, Any]) -> str | None:
    """What Serve's router goes by: the replica that stores a response, else the session or conversation."""
    in_path = STORED.match(scope["path"])
    stored = in_path[1] if in_path else fields.get("previous_response_id")
    replica = replica_of(stored) if isinstance(stored, str) else None
    if replica is not None:
        return REPLICA + replica
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return affinity_key(headers, fields)


def again(number: int, key: str) -> str:
    """What Serve's router goes by for a request that was sent `number` times before."""
    return f"again {number} {key}"


def sent_before(session: str) -> tuple[int, str]:
    """How often a request was sent before, and its key."""
    found = AGAIN.fullmatch(session)
    return (int(found[1]), found[2]) if found else (0, session)


def middlewares() -> list[Any]:
    """What RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH names."""
    from starlette.middleware import Middleware  # of Ray Serve's own

    return [Middleware(SessionFinder)]


def _headers(scope: Scope, key: str | None, request_id: str) -> list[tuple[bytes, bytes]]:
    """The headers of a request, with its key and its id alone by these names."""
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in (HEADER, REQUEST_ID)]
    if key is not None:
        headers.append((HEADER, key.encode()))
    return [*headers, (REQUEST_ID, request_id.encode("latin-1"))]


def _request_id(scope: Scope, fields: Mapping[str, Any]) -> str:
    """The id of the headers, or of the body, else a new one as Braid's own."""
    for name, value in scope["headers"]:
        if name.lower() == REQUEST_ID:
            return str(value.decode("latin-1"))
    chosen = fields.get("request_id")
    return clean_id(chosen if isinstance(chosen, str) else None) or token_hex(16)


def _resends(read: list[Message], key: str | None) -> int:
    """None where a part of the body is not here, or only one replica can reply."""
    is_whole = bool(read) and read[-1]["type"] == "http.request" and not read[-1].get("more_body")
    return RESENDS if is_whole and not (key or "").startswith(REPLICA) else 0


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

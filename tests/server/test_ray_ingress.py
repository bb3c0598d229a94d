"""What Ray Serve's proxy finds in a request before it chooses a replica; without Ray."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from server.affinity import affinity_key
from server.ray_ingress import HEADER, MAX_BODY, REQUEST_ID, SessionFinder

JSON = (b"content-type", b"application/json")
STORED = f"resp_abc_{'0' * 32}"


def passed(*bodies, path="/v1/chat/completions", headers=(JSON,), kind="http"):
    """The scope that reaches the application, and the messages that it receives."""
    waiting = [
        {"type": "http.request", "body": body, "more_body": at + 1 < len(bodies)}
        for at, body in enumerate(bodies)
    ]
    waiting.append({"type": "http.disconnect"})
    sent, seen = [dict(message) for message in waiting], []

    async def receive():
        return waiting.pop(0)

    async def app(scope, receive, send):
        seen.append(scope)
        seen.extend([await receive() for _ in sent])

    scope = {"type": kind, "path": path, "headers": list(headers)}
    asyncio.run(SessionFinder(app)(scope, receive, None))
    assert seen[1:] == sent, "the request itself goes on as it came"
    added = {HEADER} if any(name == REQUEST_ID for name, _ in headers) else {HEADER, REQUEST_ID}
    others = [pair for pair in seen[0]["headers"] if pair[0] not in added]
    assert others == [pair for pair in headers if pair[0] != HEADER]
    return seen[0]


def key(scope):
    found = [value.decode() for name, value in scope["headers"] if name == HEADER]
    assert len(found) < 2
    return found[0] if found else None


def dumped(**fields):
    return json.dumps(fields).encode()


MESSAGES = [{"role": "user", "content": "Hello!"}]


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_cache_key": "k", "messages": MESSAGES},
        {"user": "u", "messages": MESSAGES},
        {"messages": MESSAGES},
        {"previous_response_id": "resp_of_another_server"},
    ],
    ids=str,
)
def test_the_key_is_that_of_the_body(fields):
    body = dumped(**fields)
    assert key(passed(body)) == key(passed(body[:5], body[5:])) == affinity_key({}, fields) is not None


def test_a_session_s_header_counts_before_the_body():
    named = (b"X-Session-ID", b"mine")
    expected = affinity_key({"x-session-id": "mine"}, {})
    assert key(passed(dumped(user="u"), headers=(JSON, named))) == expected
    assert key(passed(b"", headers=(named,))) == expected
    assert key(passed(headers=(named,), kind="websocket", path="/v1/realtime")) == expected


def test_a_stored_response_leads_to_its_replica():
    assert key(passed(path=f"/v1/responses/{STORED}", headers=())) == "replica abc"
    assert key(passed(path=f"/v1/responses/{STORED}/input_items", headers=())) == "replica abc"
    body = dumped(previous_response_id=STORED, user="u")
    assert key(passed(body, headers=(JSON, (b"x-session-id", b"mine")))) == "replica abc"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", ()),
        (b"{", (JSON,)),
        (b"[1]", (JSON,)),
        (dumped(user="u"), ((b"content-type", b"text/plain"),)),
        (dumped(user="u", pad="x" * MAX_BODY), (JSON,)),
        (b"{}", (JSON, (HEADER, b"chosen by the client"))),
    ],
    ids=["none", "broken", "list", "text", "large", "forged"],
)
def test_other_requests_have_no_key(body, headers):
    assert key(passed(body, headers=headers)) is None


def test_a_large_body_is_not_held_back():
    parts = [b"x" * (MAX_BODY // 2)] * 6
    assert key(passed(*parts)) is None


@pytest.mark.parametrize(
    ("headers", "fields", "expected"),
    [
        ((JSON, (REQUEST_ID, b"its own")), {"request_id": "other"}, r"its own"),
        ((JSON,), {"request_id": "my-req-1"}, r"my-req-1"),
        ((JSON,), {"request_id": 7}, r"[0-9a-f]{32}"),
        ((JSON,), {"request_id": "a\nb"}, r"[0-9a-f]{32}"),
        ((), {}, r"[0-9a-f]{32}"),
    ],
    ids=str,
)
def test_a_request_has_the_id_that_it_would_have_without_serve(headers, fields, expected):
    found = [
        value for name, value in passed(dumped(**fields), headers=headers)["headers"] if name == REQUEST_ID
    ]
    assert len(found) == 1
    assert re.fullmatch(expected, found[0].decode())

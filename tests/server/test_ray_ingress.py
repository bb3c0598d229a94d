"""What Ray Serve's proxy finds in a request before it chooses a replica; without Ray."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from server.ray_ingress import HEADER, MAX_BODY, REQUEST_ID, SessionFinder, again, sent_before
from server.services.affinity import affinity_key

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

    async def send(message):
        """To nobody: the client left."""

    asyncio.run(SessionFinder(app)(scope, receive, send))
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


def replied(*replies, body=b"{}", headers=(JSON,), path="/v1/chat/completions", gone=False):
    """What a client gets whose request is replied to in this way by one replica after another: the status, its
    text, and the keys under which the request was sent, with all of its body.

    A reply of None: the replica ended before it replied.
    """
    waiting = [{"type": "http.request", "body": body, "more_body": len(body) > MAX_BODY}]
    waiting += [{"type": "http.disconnect"}] if gone else []
    got, keys, left = [], [], list(replies)

    async def receive():
        return waiting.pop(0) if waiting else await asyncio.Event().wait()

    async def app(scope, receive, send):
        keys.append(key(scope))
        assert (await receive())["body"] == body
        if gone:
            await receive()
        status = left.pop(0)
        if status is not None:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            await send({"type": "http.response.body", "body": b"b"})

    async def send(message):
        got.append(message)

    scope = {"type": "http", "path": path, "headers": list(headers)}
    asyncio.run(SessionFinder(app)(scope, receive, send))
    assert left == [], "no reply is waited for"
    return (got[0]["status"] if got else None), b"".join(message.get("body", b"") for message in got), keys


@pytest.mark.parametrize("refusal", [503, None], ids=["503", "no reply"])
def test_a_request_without_a_reply_goes_to_other_replicas(refusal):
    body = dumped(user="u")
    session = affinity_key({}, {"user": "u"})
    keys = [session, f"again 1 {session}", f"again 2 {session}"]
    assert replied(200, body=body) == (200, b"ab", keys[:1])
    assert replied(refusal, 200, body=body) == (200, b"ab", keys[:2])
    assert replied(refusal, refusal, 200, body=body) == (200, b"ab", keys)
    assert replied(503, refusal, 503, body=body) == (503, b"ab", keys), "the last reply is the client's"
    assert replied(None, 503, None, body=body) == (None, b"", keys)


@pytest.mark.parametrize("status", [200, 400, 404, 429, 500, 504])
def test_any_other_reply_is_the_clients(status):
    assert replied(status)[:2] == (status, b"ab")


def test_without_a_session_the_next_replicas_are_those_of_its_id():
    _, _, keys = replied(503, None, 200, headers=(JSON, (REQUEST_ID, b"mine")))
    assert keys == [None, "again 1 mine", "again 2 mine"]


@pytest.mark.parametrize(
    "request_",
    [
        {"body": b"x" * (MAX_BODY + 1)},
        {"headers": ((b"content-type", b"multipart/form-data"),)},
        {"body": dumped(previous_response_id=STORED)},
        {"gone": True},
    ],
    ids=["large", "not JSON", "of one replica", "of a client that left"],
)
def test_what_is_sent_once(request_):
    assert replied(503, **request_)[0] == (None if request_.get("gone") else 503)


def test_the_router_finds_how_often_a_request_was_sent():
    assert sent_before(again(2, "a key\nof two lines")) == (2, "a key\nof two lines")
    for chosen_by_a_client in ("", "mine", "again", "again x mine", f"again {'9' * 5000} mine"):
        assert sent_before(chosen_by_a_client) == (0, chosen_by_a_client)

"""Requests of an event loop: connections that are used again, replies that are refused or left, events."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from tools.client.async_client import AsyncClient
from tools.client.form_data import HEADERS, form_data
from tools.client.http_client import RequestFailed

OK = "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
STREAM = 'data: {"n": 1}\n\n: a comment\n\ndata: {"n": 2}\n\ndata: [DONE]\n\n'
ERROR = 'data: {"n": 1}\n\ndata: {"error": {"message": "it broke"}}\n\n'


def run(scene, *replies):
    """What a scene returns with a client of a server that gives these replies, one to each request; and the
    heads of the requests by their connections.
    """
    left, connections, served = [*replies], [], []

    async def serve(reader, writer):
        heads = []
        connections.append(heads)
        served.append(asyncio.current_task())
        with_body = reader.readuntil(b"\r\n\r\n")
        while True:
            try:
                head = (await with_body).decode()
            except asyncio.IncompleteReadError:
                break
            await reader.readexactly(int(head.lower().partition("content-length:")[2].split()[0]))
            heads.append(head)
            writer.write(left.pop(0).encode())
            await writer.drain()
            with_body = reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def scene_with_server():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/base"
        async with server:
            async with AsyncClient(url) as client:
                result = await scene(client)
            await asyncio.wait(served)
        return result

    return asyncio.run(scene_with_server()), connections


def ok(body):
    return OK.format(length=len(body), body=body)


def test_requests_after_each_other_share_a_connection():
    async def scene(client):
        form = form_data({"purpose": "batch"}, "a.jsonl", b"{}")
        return (
            await client.get("/one"),
            await client.send("POST", "/two", form, HEADERS),
            await client.post("/3"),
        )

    replies, connections = run(scene, ok('{"a": 1}'), ok("text"), ok(""))
    assert replies == ({"a": 1}, b"text", None)
    ((first, second, _),) = connections
    assert first.startswith("GET /base/one HTTP/1.1")
    assert "Content-Type: application/json" in first
    assert second.count("Content-Type") == 1
    assert "multipart/form-data" in second


def test_requests_at_once_have_connections_of_their_own():
    async def scene(client):
        return await asyncio.gather(client.get("/a"), client.get("/b"))

    replies, connections = run(scene, ok("1"), ok("2"))
    assert sorted(replies) == [1, 2]
    assert len(connections) == 2


def test_a_refusal_has_its_status_and_the_connection_goes_on():
    async def scene(client):
        with pytest.raises(RequestFailed, match=r"400: no such thing") as failed:
            await client.get("/a")
        return failed.value.status, await client.get("/b")

    body = '{"error": {"message": "no such thing"}}'
    refused = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    results, connections = run(scene, refused, ok("2"))
    assert results == (400, 2)
    assert len(connections) == 1


def test_events_are_read_to_their_end():
    async def scene(client):
        async with client.events("/s", {}) as events:
            numbers = [event["n"] async for event in events]
        return numbers, await client.get("/b")

    results, connections = run(scene, ok(STREAM), ok("3"))
    assert results == ([1, 2], 3)
    assert len(connections) == 1


def test_a_stream_that_is_left_takes_its_connection_with_it():
    async def scene(client):
        async with client.events("/s", {}) as events, aclosing(events):
            async for event in events:
                first = event["n"]
                break
        return first, await client.get("/b")

    unfinished = OK.format(length=10_000, body=STREAM)
    results, connections = run(scene, unfinished, ok("3"))
    assert results == (1, 3)
    assert len(connections) == 2


def test_an_error_among_events_and_a_reply_that_is_no_json():
    async def scene(client):
        with pytest.raises(RequestFailed, match="it broke"):
            async with client.events("/s", {}) as events:
                assert [event async for event in events]
        with pytest.raises(RequestFailed, match="not JSON"):
            await client.get("/b")

    run(scene, ok(ERROR), ok("no"))


def test_a_server_that_is_not_there_is_named():
    async def scene():
        async with AsyncClient("127.0.0.1:9", timeout_s=5) as client:
            await client.get("/a")

    with pytest.raises(RequestFailed, match=r"no reply of http://127\.0\.0\.1:9"):
        asyncio.run(scene())

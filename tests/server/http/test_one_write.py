"""Head and body of a response in one write, where the length is known."""

from __future__ import annotations

import asyncio
import logging

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from server.http.one_write import OneWriteCycle

LENGTH = [(b"content-length", b"5")]


class Transport:
    """Records each call that writes."""

    def __init__(self):
        self.writes, self.closed = [], False

    def write(self, data):
        self.writes.append(data)

    def writelines(self, pieces):
        self.writes.append(b"".join(pieces))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def respond(headers, bodies, method="GET", gone=False, keep_alive=True):
    """The writes of a response, whether the connection was closed, and whether the response is complete."""

    async def scene():
        transport = Transport()
        cycle = RequestResponseCycle(
            scope={"method": method, "type": "http"},
            transport=transport,
            flow=FlowControl(transport),
            logger=logging.getLogger(),
            access_logger=logging.getLogger(),
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=lambda: None,
        )
        OneWriteCycle.replace(cycle)
        cycle.disconnected = gone
        await cycle.send({"type": "http.response.start", "status": 200, "headers": headers})
        before = len(transport.writes)
        for at, body in enumerate(bodies, 1):
            more = at < len(bodies)
            await cycle.send({"type": "http.response.body", "body": body, "more_body": more})
        return transport.writes, before, transport.closed, cycle.response_complete

    return asyncio.run(scene())


def test_head_and_body_are_one_write():
    writes, before, closed, complete = respond(LENGTH, [b"hello"])
    assert writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"]
    assert (before, closed, complete) == (0, False, True)


def test_what_follows_the_first_piece_is_written_as_it_comes():
    writes, *_, complete = respond(LENGTH, [b"he", b"llo"], keep_alive=False)
    assert [piece.rpartition(b"\r\n")[2] for piece in writes] == [b"he", b"llo"]
    assert complete


def test_a_connection_is_closed_after_the_body():
    assert respond(LENGTH, [b"hello"], keep_alive=False)[2]


@pytest.mark.parametrize(
    ("headers", "method"), [(LENGTH, "HEAD"), ([], "GET"), ([(b"content-length", b"0")], "GET")]
)
def test_a_head_without_a_body_of_known_length_is_written_at_once(headers, method):
    writes, before, _, complete = respond(headers, [b""], method)
    assert (before, complete) == (1, True)
    assert writes[0].startswith(b"HTTP/1.1 200 OK\r\n")


def test_nothing_is_written_for_a_client_that_is_gone():
    assert respond(LENGTH, [b"hello"], gone=True)[0] == []

"""Streams as HTTP replies: when they start, their headers, and keep-alive comments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import falcon.asgi

from pipelines.base.cancellation import ClientGone
from server.http.exchange import Exchange
from server.http.line_ends import escape_line_ends

FIRST_PIECE_S = 5.0
"""How long a stream's status waits for the first piece, so that an early failure gets a status of its own."""

EVENT_STREAM = "text/event-stream; charset=utf-8"
Piece = TypeVar("Piece")


async def first_piece(pieces: AsyncIterator[Piece], exchange: Exchange) -> asyncio.Future[Piece | None]:
    """The first piece, or a future of it once FIRST_PIECE_S have passed.

    Raises the error before it, and ClientGone when the pieces end without one.
    """
    first = asyncio.ensure_future(next_piece(pieces))
    exchange.at_end(first.cancel)
    await asyncio.wait({first}, timeout=FIRST_PIECE_S)
    if first.done() and first.result() is None:
        raise ClientGone
    return first


async def next_piece(pieces: AsyncIterator[Piece]) -> Piece | None:
    """The next piece; None at the end."""
    return await anext(pieces, None)


def as_stream(resp: falcon.asgi.Response, data: AsyncIterator[bytes], media_type: str = EVENT_STREAM) -> None:
    """Reply with a stream of lines with JSON, server-sent events where they are nothing else."""
    resp.content_type = media_type
    resp.set_header("Cache-Control", "no-cache")
    resp.set_header("X-Accel-Buffering", "no")
    resp.stream = _whole_lines(data)


async def _whole_lines(data: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in data:
        yield escape_line_ends(piece)


async def kept_alive(
    exchange: Exchange, data: AsyncIterator[bytes], event: bytes = b""
) -> AsyncIterator[bytes]:
    """Passes the data on, with keep-alive comments while there is none, and after some of them an event."""
    with exchange.kept_alive(event=event):
        async for piece in data:
            if piece:
                exchange.has_written = True
                yield piece

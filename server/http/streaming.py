"""A stream as an HTTP answer: when it begins, its headers, and what keeps it alive.  Knows no event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import falcon.asgi

from server.http.exchange import ClientGone, Exchange

FIRST_PIECE_S = 5.0
"""How long a stream's status waits for the first piece, so that an early failure gets a status of its own."""

Piece = TypeVar("Piece")


async def begun(pieces: AsyncIterator[Piece], exchange: Exchange) -> asyncio.Future[Piece | None]:
    """The first piece, or a promise of it once FIRST_PIECE_S have passed.

    Raises what failed before it, and ClientGone when there is none.
    """
    first = asyncio.ensure_future(following(pieces))
    exchange.at_end(first.cancel)
    await asyncio.wait({first}, timeout=FIRST_PIECE_S)
    if first.done() and first.result() is None:
        raise ClientGone
    return first


async def following(pieces: AsyncIterator[Piece]) -> Piece | None:
    """What comes next; None when nothing will."""
    return await anext(pieces, None)


def as_stream(resp: falcon.asgi.Response, data: AsyncIterator[bytes]) -> None:
    """Answer with server-sent events."""
    resp.content_type = "text/event-stream; charset=utf-8"
    resp.set_header("Cache-Control", "no-cache")
    resp.set_header("X-Accel-Buffering", "no")
    resp.stream = data


async def kept_alive(exchange: Exchange, data: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same data; between them comments, while nothing is said."""
    with exchange.kept_alive():
        async for piece in data:
            if piece:
                exchange.said = True
                yield piece

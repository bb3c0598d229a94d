"""A reply over HTTP with the time of each piece: while it comes, only times are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tools.client.connection import Connection
from tools.client.event_lines import event_text

TimedPieces = list[tuple[float, bytes]]
"""Seconds since the start, and the bytes that came then."""


async def timed_pieces(connection: Connection, now_s: Callable[[], float]) -> TimedPieces:
    """The whole reply; `now_s` is asked when a piece comes.  Raises ConnectionBroken, OSError."""
    return [(now_s(), piece) async for piece in connection.pieces()]


def whole(pieces: TimedPieces) -> bytes:
    return b"".join(piece for _, piece in pieces)


def timed_events(pieces: Iterable[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The text of each event of a stream, with the time at which its end came."""
    rest = b""
    for at_s, piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            text = event_text(line)
            if text is not None:
                yield at_s, text

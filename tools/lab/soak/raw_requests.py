"""Single requests with any headers, that may leave their answer unread, each on a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

UNREAD_BYTES = 1 << 14
"""What a client reads ahead of its program at most, apart from the kernel's buffers."""
ANSWER_S = 120.0


@dataclass(frozen=True)
class RawRequest:
    """`then`: bytes to send after the head of the answer; `leaves_after_s`: seconds after that head until
    the client leaves, which then reads no body; None: it reads all.  `gives_up_s`: seconds until it leaves
    wherever it is.  `copies`: how many are sent at once; `next_of` makes a second request of the body of an
    answer with status 200.
    """

    path: str
    body: bytes = b""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    then: bytes = b""
    leaves_after_s: float | None = None
    gives_up_s: float = ANSWER_S
    copies: int = 1
    next_of: Callable[[bytes], RawRequest] | None = None


async def answer_to(request: RawRequest, address: tuple[str, int], key: str) -> tuple[str, bytes]:
    """The status, or why there is none, and the body as far as it was read."""
    try:
        async with asyncio.timeout(request.gives_up_s):
            reader, writer = await asyncio.open_connection(*address, limit=UNREAD_BYTES)
            try:
                return await _answer(request, _head(request, address, key), reader, writer)
            finally:
                writer.close()
    except TimeoutError:
        return f"none in {request.gives_up_s:g} s", b""
    except (OSError, asyncio.IncompleteReadError):
        return "closed", b""


async def _answer(
    request: RawRequest, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[str, bytes]:
    writer.write(head + request.body)
    with suppress(ConnectionError):  # refused before all was sent: the answer is there
        await writer.drain()
    status = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
    writer.write(request.then)
    if request.leaves_after_s is None:
        return status, await reader.read()
    await asyncio.sleep(request.leaves_after_s)
    return status, b""


def _head(request: RawRequest, address: tuple[str, int], key: str) -> bytes:
    headers = {
        "Host": "{}:{}".format(*address),
        "Authorization": f"Bearer {key}",
        "Connection": "close",
    }
    if request.method == "POST":
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(request.body))}
    lines = [f"{name}: {value}\r\n" for name, value in (headers | dict(request.headers)).items()]
    return f"{request.method} {request.path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode()

"""Reads request bodies and checks their size and depth before they are parsed."""

from __future__ import annotations

import codecs
import io
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import falcon.asgi
import numpy as np
from pydantic import BaseModel, RootModel, ValidationError

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import Overloaded, RequestError
from pipelines.requests.fields.validation import from_validation
from server.http.content_encoding import inflated
from server.http.errors import BodyTooLarge
from server.http.exchange import Exchange

BYTE_ORDER_MARK = codecs.BOM_UTF8
"""Before JSON it is ignored, as RFC 8259 allows: programs of Windows write it."""
MAX_DEPTH = 64
MAX_VALUES = 1 << 20
"""How many values a body may hold: a parser makes objects of them, and holds the event loop up meanwhile."""
MAX_KEYS = 1 << 18
"""How many of them may have a name, which takes a parser several times as long."""
SHORT_BODY_BYTES = 64 << 10
"""A body up to this size is read whatever else arrives."""
MAX_ARRIVING = 8
"""Bodies that arrive hold at most this many times the memory of the largest one."""

Body = TypeVar("Body", bound=BaseModel)
Read = TypeVar("Read")

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{},:'))
_DEPTHS = np.zeros(256, np.int8)
"""Character → by how much the depth changes at it."""
_DEPTHS[list(b"[{")], _DEPTHS[list(b"]}")] = 1, -1
SLICE_BYTES = 1 << 20


class JsonObject(RootModel[dict[str, Any]]):
    """A body whose model depends on its fields."""


class ArrivingBodies:
    """Bounds the memory of the bodies that a worker is reading, of which none has a permit yet.

    Short bodies always pass: many that arrive slowly turn no other away.
    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` is the limit of one body."""
        self.max_bytes = max_bytes
        self.num_bytes = 0

    def add(self, num_bytes: int, whole: int) -> None:
        """Count a piece of something of which `whole` bytes are held now.

        Raises Overloaded where that is long and too much is held; what was counted stays so.
        """
        self.num_bytes += num_bytes
        if whole > SHORT_BODY_BYTES and self.num_bytes > MAX_ARRIVING * self.max_bytes:
            raise Overloaded("this worker is reading too many long bodies; try again soon")

    async def read(
        self,
        req: falcon.asgi.Request,
        read: Callable[[AsyncIterator[bytes]], Awaitable[Read]],
        any_content: bool = False,
    ) -> Read:
        """What `read` makes of the pieces of a body as they arrive; it need not read all of them.

        The body is JSON; with `any_content` it is of any type, inflated where it is compressed.  Raises
        BodyTooLarge, Overloaded, ClientGone, and RequestError for content that is not read.
        """
        if not any_content:
            _check_content(req)
        pieces = _CountedPieces(self, req)
        try:
            result = await read(pieces)
            async for _ in pieces:
                pass
        except RequestError:
            _check_here(req)
            raise
        finally:
            self.num_bytes -= pieces.num_bytes
        _check_here(req)
        return result


def is_here(req: falcon.asgi.Request) -> bool:
    """Whether a body has come in one piece; it is short and not compressed."""
    length = req.content_length
    is_short = length is not None and length <= SHORT_BODY_BYTES
    return is_short and req.scope["braid.exchange"].has_whole_body and _encoding(req) == "identity"


async def body_here(req: falcon.asgi.Request, any_content: bool = False) -> bytes:
    """A body that `is_here`.  Raises RequestError and ClientGone as `ArrivingBodies.read` does."""
    if not any_content:
        _check_content(req)
    body: bytes = await req.stream.readall()
    _check_here(req)
    return body if any_content else body.removeprefix(BYTE_ORDER_MARK)


async def stream_body(
    req: falcon.asgi.Request, read: Callable[[AsyncIterator[bytes]], Awaitable[Read]]
) -> Read:
    """What `read` makes of the pieces of a body as they arrive; it bounds them, and puts them elsewhere.

    Raises ClientGone, and what `read` raises.
    """
    pieces = aiter(_pieces(req))
    try:
        result = await read(pieces)
    except RequestError:
        _check_here(req)
        raise
    _check_here(req)
    return result


class _CountedPieces(AsyncIterator[bytes]):
    """The pieces of one body; raises BodyTooLarge and Overloaded as soon as it is known."""

    def __init__(self, bodies: ArrivingBodies, req: falcon.asgi.Request) -> None:
        self.num_bytes = 0
        self._bodies = bodies
        if (req.content_length or 0) > bodies.max_bytes:
            raise self._too_large()
        self._pieces = aiter(_pieces(req))

    async def __anext__(self) -> bytes:
        piece, bodies = await anext(self._pieces), self._bodies
        self.num_bytes += len(piece)
        if self.num_bytes > bodies.max_bytes:
            bodies.num_bytes += len(piece)
            raise self._too_large()
        bodies.add(len(piece), self.num_bytes)
        return piece

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"the body is larger than {self._bodies.max_bytes} bytes, the limit of this server"
        )


async def joined(pieces: AsyncIterable[bytes]) -> bytes:
    """All of them in one, without a second copy."""
    whole = io.BytesIO()
    async for piece in pieces:
        whole.write(piece)
    return whole.getvalue()


def _check_here(req: falcon.asgi.Request) -> None:
    """Raise ClientGone where the client has left: what came may be cut short."""
    if req.scope["braid.exchange"].is_gone:
        raise ClientGone


def _pieces(req: falcon.asgi.Request) -> AsyncIterable[bytes]:
    encoding = _encoding(req)
    return req.stream if encoding == "identity" else inflated(req.stream, encoding)


def _encoding(req: falcon.asgi.Request) -> str:
    return (req.get_header("Content-Encoding") or "identity").strip().lower()


def _check_content(req: falcon.asgi.Request) -> None:
    if (req.content_type or "").split(";")[0].strip().lower() != "application/json":
        raise RequestError("Unsupported Media Type: Only 'application/json' is allowed", field="Content-Type")


async def parse_body(exchange: Exchange, model: type[Body], body: bytes) -> Body:
    """The body as a checked request, parsed off the event loop when it is long.  Raises RequestError."""
    return await exchange.off_loop(lambda: parse(model, body), len(body))


def parse(model: type[Body], body: bytes) -> Body:
    body = body.removeprefix(BYTE_ORDER_MARK)
    check_structure(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error) from None


def check_structure(body: bytes) -> None:
    """Raise RequestError when brackets nest deeper than MAX_DEPTH, or for more than MAX_VALUES values.

    What is inside strings does not count.  It takes a few passes over the bytes, whatever they are.
    """
    is_flat = body.count(b"[") + body.count(b"{") <= MAX_DEPTH
    if is_flat and body.count(b",") < MAX_VALUES and body.count(b":") <= MAX_KEYS:
        return
    without_escapes = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = without_escapes.translate(None, _NOT_STRUCTURE)
    num_quotes = depth = num_commas = num_keys = 0
    for start in range(0, len(structure), SLICE_BYTES):
        characters = np.frombuffer(structure, np.uint8, min(SLICE_BYTES, len(structure) - start), start)
        quotes = np.cumsum(characters == ord('"')) + num_quotes
        outside = characters * (quotes % 2 == 0)
        depths = np.cumsum(_DEPTHS[outside], dtype=np.int64) + depth
        num_commas += int(np.count_nonzero(outside == ord(",")))
        num_keys += int(np.count_nonzero(outside == ord(":")))
        num_quotes, depth = int(quotes[-1]), int(depths[-1])
        if depths.max() > MAX_DEPTH:
            raise RequestError(f"the body is nested deeper than {MAX_DEPTH} levels")
        if num_commas >= MAX_VALUES:
            raise RequestError(f"the body may hold {MAX_VALUES} values at most")
        if num_keys > MAX_KEYS:
            raise RequestError(f"the body may hold {MAX_KEYS} named values at most")

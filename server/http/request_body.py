"""Reads request bodies and checks their size and depth before they are parsed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, TypeVar

import falcon.asgi
from pydantic import BaseModel, RootModel, ValidationError

from pipelines.errors import Overloaded, RequestError
from server.http.errors import BodyTooLarge, from_validation
from server.http.exchange import ClientGone

MAX_DEPTH = 64
SHORT_BODY_BYTES = 64 << 10
"""A body up to this size is read whatever else arrives."""
MAX_ARRIVING = 8
"""Bodies that arrive hold at most this many times the memory of the largest one."""
LONG_BODY_BYTES = 16 << 10
"""A longer body is parsed, and its prompt tokenized, off the event loop."""

Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


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

    async def read(self, req: falcon.asgi.Request) -> bytes:
        """The body of a JSON request.

        Raises BodyTooLarge, Overloaded, ClientGone, and RequestError for another type of content.
        """
        _check_content(req)
        too_large = BodyTooLarge(f"the body is larger than {self.max_bytes} bytes, the limit of this server")
        if (req.content_length or 0) > self.max_bytes:
            raise too_large
        pieces, size = [], 0
        try:
            async for piece in req.stream:
                size += len(piece)
                self.num_bytes += len(piece)
                if size > self.max_bytes:
                    raise too_large
                if size > SHORT_BODY_BYTES and self.num_bytes > MAX_ARRIVING * self.max_bytes:
                    raise Overloaded("this worker is reading too many long bodies; try again soon")
                pieces.append(piece)
        finally:
            self.num_bytes -= size
        if req.scope["braid.exchange"].is_gone:
            raise ClientGone  # what came may be cut short
        return b"".join(pieces)


def _check_content(req: falcon.asgi.Request) -> None:
    if (req.content_type or "").split(";")[0].strip().lower() != "application/json":
        raise RequestError("Unsupported Media Type: Only 'application/json' is allowed", field="Content-Type")
    if (req.get_header("Content-Encoding") or "identity").lower() != "identity":
        raise RequestError("compressed bodies are not supported; send it as it is", field="Content-Encoding")


async def parse_body(model: type[Body], body: bytes) -> Body:
    """The body as a checked request, parsed in a thread when it is long.  Raises RequestError."""
    if len(body) > LONG_BODY_BYTES:
        return await asyncio.to_thread(parse, model, body)
    return parse(model, body)


async def off_loop(work: Callable[[], Result], is_long: bool) -> Result:
    """What `work` gives; in a thread when it takes long."""
    return await asyncio.to_thread(work) if is_long else work()


def parse(model: type[Body], body: bytes) -> Body:
    check_depth(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error) from None


def check_depth(body: bytes) -> None:
    """Raise RequestError when brackets nest deeper than MAX_DEPTH; brackets inside strings do not count."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _STRINGS.sub(b"", body).translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise RequestError(f"the body is nested deeper than {MAX_DEPTH} levels")

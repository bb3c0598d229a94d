"""Reads request bodies and checks their size and depth before they are parsed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, TypeVar

import falcon.asgi
from pydantic import BaseModel, RootModel, ValidationError

from pipelines.errors import RequestError
from server.http.errors import BodyTooLarge, BodyTooSlow, from_validation

MAX_DEPTH = 64
IDLE_S = 30.0
"""A request whose body does not continue for this long is refused."""
LONG_BODY_BYTES = 16 << 10
"""A longer body is parsed, and its prompt tokenized, off the event loop."""

Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class JsonObject(RootModel[dict[str, Any]]):
    """A body whose model depends on its fields."""


async def read_body(req: falcon.asgi.Request, max_bytes: int) -> bytes:
    """The body of a JSON request.

    Raises BodyTooLarge, BodyTooSlow, and RequestError for another type of content.
    """
    if (req.content_type or "").split(";")[0].strip().lower() != "application/json":
        raise RequestError("Unsupported Media Type: Only 'application/json' is allowed", field="Content-Type")
    if (req.get_header("Content-Encoding") or "identity").lower() != "identity":
        raise RequestError("compressed bodies are not supported; send it as it is", field="Content-Encoding")
    too_large = BodyTooLarge(f"the body is larger than {max_bytes} bytes, the limit of this server")
    if (req.content_length or 0) > max_bytes:
        raise too_large
    pieces, size = [], 0
    try:
        async with asyncio.timeout(IDLE_S) as deadline:
            async for piece in req.stream:
                deadline.reschedule(asyncio.get_running_loop().time() + IDLE_S)
                size += len(piece)
                if size > max_bytes:
                    raise too_large
                pieces.append(piece)
    except TimeoutError:
        raise BodyTooSlow(f"nothing of the body came for {IDLE_S:g} s") from None
    return b"".join(pieces)


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

"""Compressed request bodies, inflated in small steps while they arrive."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator

from pipelines.base.errors import RequestError

GZIP_OR_ZLIB = 47
"""zlib's word for: find out which of the two it is."""
STEP_BYTES = 1 << 18
"""Inflated at once, in about a millisecond."""
ENCODINGS = ("gzip", "deflate")


async def inflated(pieces: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The bytes that `pieces` hold compressed, at most STEP_BYTES at a time.

    Other tasks run between two steps.  Raises RequestError for bytes that are no such data.
    """
    if encoding not in ENCODINGS:
        raise RequestError(
            f"Content-Encoding must be identity, {' or '.join(ENCODINGS)}", field="Content-Encoding"
        )
    inflater = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        async for piece in pieces:
            rest = piece
            while rest and not inflater.eof:
                yield inflater.decompress(rest, STEP_BYTES)
                rest = inflater.unconsumed_tail
                await asyncio.sleep(0)
            if inflater.unused_data or (rest and inflater.eof):
                raise RequestError("there are bytes after the end of the compressed body")
        while more := inflater.decompress(b"", STEP_BYTES):  # what no step had room for
            yield more
    except zlib.error as error:
        raise RequestError(f"the body is not {encoding} data: {error}", field="Content-Encoding") from None
    if not inflater.eof:
        raise RequestError("the compressed body ends early", field="Content-Encoding")

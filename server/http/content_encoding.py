"""Compressed request bodies, inflated in small steps while they arrive."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable
from importlib import import_module
from typing import Any, Protocol

from pipelines.base.errors import RequestError

GZIP_OR_ZLIB = 47
"""zlib's word for: find out which of the two it is."""
STEP_BYTES = 1 << 18
"""Inflated at once, in about a millisecond."""
MAX_WINDOW_LOG = 23
"""The most memory that a zstd body may ask for, 8 MiB: the largest window that its format recommends."""
ZSTD = "backports.zstd" if sys.version_info < (3, 14) else "compression.zstd"


class Inflater(Protocol):
    """What the decompressors of Python's library have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class ZlibInflater:
    """zlib's object, with the input that a step had no room for inside."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(GZIP_OR_ZLIB)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def needs_input(self) -> bool:
        return not self._is_full

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        inflated = self._inflater.decompress(self._inflater.unconsumed_tail + data, max_length)
        self._is_full = len(inflated) == max_length
        return inflated


def _zstd() -> Inflater:
    try:
        zstd: Any = import_module(ZSTD)
    except ImportError:
        raise RequestError(
            f"Content-Encoding zstd needs the package {ZSTD} on the server: pip install 'braid-server[zstd]'",
            field="Content-Encoding",
        ) from None
    limits = {zstd.DecompressionParameter.window_log_max: MAX_WINDOW_LOG}
    inflater: Inflater = zstd.ZstdDecompressor(options=limits)
    return inflater


INFLATERS: dict[str, Callable[[], Inflater]] = {
    "gzip": ZlibInflater,
    "deflate": ZlibInflater,
    "zstd": _zstd,
}


async def inflated(pieces: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The bytes that `pieces` hold compressed, at most STEP_BYTES at a time.

    Other tasks run between two steps.  Raises RequestError for bytes that are no such data.
    """
    if encoding not in INFLATERS:
        raise RequestError(
            f"Content-Encoding must be identity, {' or '.join(INFLATERS)}", field="Content-Encoding"
        )
    inflater = INFLATERS[encoding]()
    async for piece in pieces:
        rest = piece
        while rest or not (inflater.eof or inflater.needs_input):
            if inflater.eof:
                break
            yield _step(inflater, rest, encoding)
            rest = b""
            await asyncio.sleep(0)
        if inflater.unused_data or (rest and inflater.eof):
            raise RequestError("there are bytes after the end of the compressed body")
    if not inflater.eof:
        raise RequestError("the compressed body ends early", field="Content-Encoding")


def _step(inflater: Inflater, data: bytes, encoding: str) -> bytes:
    try:
        return inflater.decompress(data, STEP_BYTES)
    except Exception as error:  # zlib.error, ZstdError
        raise RequestError(f"the body is not {encoding} data: {error}", field="Content-Encoding") from None

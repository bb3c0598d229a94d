"""Tensors of strings as bytes: each string is its length, 4 bytes in little-endian order, and its bytes.

So do KServe's binary extension and Triton write type BYTES.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.element_types import LENGTH_BYTES

MAX_STRINGS = 1 << 20
"""Most strings of one tensor: each takes an object of Python's, and the time to make it."""


def encode(strings: NDArray[Any]) -> bytes:
    """The strings row by row.  Raises TypeError for elements that are not bytes, ValueError for too many."""
    check_count(strings.size)
    items = strings.ravel().tolist()
    lengths = np.fromiter(map(len, items), "<u4", len(items))
    pieces: list[bytes] = [b""] * (2 * len(items))
    pieces[::2] = lengths.view(f"V{LENGTH_BYTES}").tolist()
    pieces[1::2] = items
    return b"".join(pieces)


def decode(data: bytes, shape: Sequence[int]) -> NDArray[Any]:
    """The array of `shape`, of bytes objects.  Raises ValueError for data of another number of strings."""
    count = 1
    for size in shape:
        count *= size
    check_count(count)
    if len(data) < count * LENGTH_BYTES:
        raise ValueError(f"{len(data)} bytes cannot hold {count} strings")
    strings = np.empty(count, object)
    strings[:] = _split(data, count)
    return strings.reshape(shape)


def check_count(count: int) -> None:
    """Raise ValueError for more strings than a tensor may have."""
    if count > MAX_STRINGS:
        raise ValueError(f"a tensor has at most {MAX_STRINGS} strings, not {count}")


def _split(data: bytes, count: int) -> list[bytes]:
    items, at = [], 0
    for _ in range(count):
        start = at + LENGTH_BYTES
        at = start + int.from_bytes(data[at:start], "little")
        items.append(data[start:at])
    if at != len(data):
        raise ValueError(f"{count} strings take {at} bytes, not {len(data)}")
    return items

"""What a block of a cache holds as one array of bytes: its parts in the arrays of the cache, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def joined(parts: Iterable[NDArray[Any]]) -> NDArray[np.uint8]:
    """uint8[bytes of all parts]: a copy; each part is contiguous."""
    return np.concatenate([_bytes_of(part) for part in parts])


def put_back(content: NDArray[np.uint8], parts: Iterable[NDArray[Any]]) -> None:
    """Replace the parts by what `joined` has given of such parts."""
    begin = 0
    for part in parts:
        end = begin + part.nbytes
        _bytes_of(part)[:] = content[begin:end]
        begin = end


def _bytes_of(part: NDArray[Any]) -> NDArray[np.uint8]:
    return part.reshape(-1).view(np.uint8)

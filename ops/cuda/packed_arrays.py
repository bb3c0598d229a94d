"""Several small arrays as one, so that they cross to or from the device in one copy.  Knows bytes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops.cuda.device import Array

ALIGNMENT = 16

ArrayKind = tuple[int, "np.dtype[Any]"]
"""How many numbers of which type."""


class ArrayLayout(NamedTuple):
    """Where arrays stand one behind the other: offsets in bytes, multiples of ALIGNMENT."""

    kinds: list[ArrayKind]
    offsets: list[int]
    num_bytes: int

    def split(self, whole: Array) -> list[Array]:
        """The arrays, flat, as views of uint8[num_bytes]; None for one that is empty."""
        return [
            whole[at : at + count * dtype.itemsize].view(dtype) if count else None
            for at, (count, dtype) in zip(self.offsets, self.kinds, strict=True)
        ]


class PackedArrays(NamedTuple):
    bytes: NDArray[np.uint8]
    layout: ArrayLayout


def layout_of(kinds: Sequence[tuple[int, Any]]) -> ArrayLayout:
    offsets, size = [], 0
    exact: list[ArrayKind] = [(count, np.dtype(dtype)) for count, dtype in kinds]
    for count, dtype in exact:
        offsets.append(size)
        size += -(-count * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return ArrayLayout(exact, offsets, size)


def pack_arrays(arrays: Sequence[NDArray[Any]]) -> PackedArrays:
    """C-contiguous arrays of any shapes and dtypes, one behind the other."""
    layout = layout_of([(array.size, array.dtype) for array in arrays])
    packed = np.empty(layout.num_bytes, np.uint8)
    for at, array in zip(layout.offsets, arrays, strict=True):
        packed[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)
    return PackedArrays(packed, layout)

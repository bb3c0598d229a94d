"""Packs several small arrays into one, so that they cross to or from the device in one copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops.cuda.device import Array

ALIGNMENT = 16

ArrayKind = tuple[int, "np.dtype[Any]"]
"""(number of elements, type)."""


class ArrayLayout(NamedTuple):
    """The places of arrays in the packed one: offsets in bytes, multiples of ALIGNMENT."""

    kinds: list[ArrayKind]
    offsets: list[int]
    num_bytes: int

    def split(self, whole: Array) -> list[Array]:
        """The arrays, flat, as views of uint8[num_bytes]; None for an empty one."""
        return [
            whole[at : at + count * dtype.itemsize].view(dtype) if count else None
            for at, (count, dtype) in zip(self.offsets, self.kinds, strict=True)
        ]


class PackedArrays(NamedTuple):
    bytes: NDArray[np.uint8]
    layout: ArrayLayout


def layout_of(kinds: Sequence[tuple[int, Any]]) -> ArrayLayout:
    """The layout of arrays with these numbers of elements and types."""
    offsets, size = [], 0
    exact: list[ArrayKind] = [(count, np.dtype(dtype)) for count, dtype in kinds]
    for count, dtype in exact:
        offsets.append(size)
        size += -(-count * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return ArrayLayout(exact, offsets, size)


def pack_arrays(arrays: Sequence[NDArray[Any]]) -> PackedArrays:
    """Pack C-contiguous arrays of any shapes and types one after the other."""
    layout = layout_of([(array.size, array.dtype) for array in arrays])
    packed = np.empty(layout.num_bytes, np.uint8)
    for at, array in zip(layout.offsets, arrays, strict=True):
        packed[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)
    return PackedArrays(packed, layout)

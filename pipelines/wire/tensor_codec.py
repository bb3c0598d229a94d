"""Converts arrays into messages and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import RequestError
from pipelines.wire import messages

Arrays = Mapping[str, NDArray[Any]]

NUMBERS = "biuf"
"""numpy's kinds that are carried: truth values, integers and floating point."""
ENVELOPE_BYTES = 1 << 20
"""Reserved in a frame for all that is not elements: names, shapes and the message around them."""


def pack(what: str, arrays: Arrays) -> list[messages.Tensor]:
    """Copies of `arrays` for one message; errors call them `what`, e.g. "inputs".

    Raises RequestError, naming the tensor, for elements that are no numbers and for more than a frame holds.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in NUMBERS:
            raise RequestError(f"The tensor {name} holds {array.dtype.name}, not numbers.", field=name)
    _check_size(what, arrays)
    return [_tensor(name, array) for name, array in arrays.items()]


def unpack(tensors: Sequence[messages.Tensor]) -> dict[str, NDArray[Any]]:
    """The arrays by name, each the caller's own.  Raises ValueError for data that is not of the shape."""
    return {one.name: np.frombuffer(one.data, one.dtype).reshape(one.shape).copy() for one in tensors}


def _tensor(name: str, array: NDArray[Any]) -> messages.Tensor:
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return messages.Tensor(name, _name(native.dtype), list(native.shape), native.tobytes())


@cache
def _name(dtype: np.dtype[Any]) -> str:
    """Cached: numpy takes as long to make the name as to copy a small array."""
    return dtype.name


def _check_size(what: str, arrays: Arrays) -> None:
    size, most = sum(array.nbytes for array in arrays.values()), messages.MAX_FRAME_BYTES - ENVELOPE_BYTES
    if size > most:
        largest = max(arrays, key=lambda name: arrays[name].nbytes)
        raise RequestError(
            f"The {what} take {size} bytes; one request carries at most {most}. "
            f"The largest is {largest} with {arrays[largest].nbytes} bytes.",
            field=largest,
        )

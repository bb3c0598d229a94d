"""Converts arrays into messages and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.element_types import BYTES, DTYPES, name_of, num_bytes
from pipelines.base.errors import RequestError
from pipelines.wire import framing, string_tensors
from pipelines.wire.requests import Tensor

Arrays = Mapping[str, NDArray[Any]]

ENVELOPE_BYTES = 1 << 20
"""Reserved in a frame for all that is not elements: names, shapes and the message around them."""


def pack(what: str, arrays: Arrays) -> list[Tensor]:
    """Copies of `arrays` for one message; errors call them `what`, e.g. "inputs".

    Raises RequestError, naming the tensor, for elements that no tensor has and for more than a frame holds.
    """
    _check_size(what, {name: _size(name, array) for name, array in arrays.items()})
    return [_tensor(name, array) for name, array in arrays.items()]


def unpack(tensors: Sequence[Tensor]) -> dict[str, NDArray[Any]]:
    """The arrays by name, each the caller's own.  Raises ValueError for data that is not of the shape."""
    return {one.name: _array(one) for one in tensors}


def _tensor(name: str, array: NDArray[Any]) -> Tensor:
    dtype = name_of(array.dtype)
    if dtype == BYTES:
        try:
            data = string_tensors.encode(array)
        except (TypeError, ValueError) as error:
            raise RequestError(f"The tensor {name} cannot be sent: {error}.", field=name) from error
    else:
        native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        data = native.tobytes()
    return Tensor(name, dtype, list(array.shape), data)


def _array(tensor: Tensor) -> NDArray[Any]:
    if tensor.dtype == BYTES:
        return string_tensors.decode(tensor.data, tensor.shape)
    return np.frombuffer(tensor.data, DTYPES[tensor.dtype]).reshape(tensor.shape).copy()


def _size(name: str, array: NDArray[Any]) -> int:
    dtype = name_of(array.dtype)
    try:
        if dtype in DTYPES:
            return num_bytes(array)
    except TypeError as error:
        raise RequestError(f"The tensor {name} holds objects that are not bytes: {error}.", name) from error
    raise RequestError(f"The tensor {name} holds {dtype}, not numbers, booleans or bytes.", field=name)


def _check_size(what: str, sizes: Mapping[str, int]) -> None:
    size, most = sum(sizes.values()), framing.MAX_FRAME_BYTES - ENVELOPE_BYTES
    if size > most:
        largest = max(sizes, key=lambda name: sizes[name])
        raise RequestError(
            f"The {what} take {size} bytes; one request carries at most {most}. "
            f"The largest is {largest} with {sizes[largest]} bytes.",
            field=largest,
        )

"""Tensors as bytes: little endian, row by row; texts with their length in four bytes before each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from server.apis.kserve.datatypes import BYTES, dtype_of
from server.apis.kserve.shapes import num_elements
from server.http.request_body import MAX_VALUES

LENGTH_BYTES = 4


def from_bytes(data: memoryview, datatype: str, shape: Sequence[int], name: str) -> NDArray[Any]:
    """The array of a tensor; of numbers it is a view of `data`.  Raises RequestError naming the tensor."""
    count = num_elements(shape, name)
    dtype = dtype_of(datatype, name)
    if datatype == BYTES:
        return objects(list(_texts(data, count, name)), shape)
    if len(data) != count * dtype.itemsize:
        raise RequestError(
            f"The tensor {name} has {len(data)} bytes; its shape {list(shape)} of {datatype} takes "
            f"{count * dtype.itemsize}",
            field=name,
        )
    if dtype.kind == "b":
        return np.frombuffer(data, np.uint8).reshape(shape).astype(bool)
    return np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape)


def to_bytes(array: NDArray[Any]) -> bytes:
    """The bytes of an array's elements."""
    if array.dtype == object:
        return b"".join([len(each).to_bytes(LENGTH_BYTES, "little") + each for each in array.ravel()])
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def one_text(data: memoryview) -> NDArray[Any]:
    """One text without its length, as object[1]."""
    return objects([bytes(data)], [1])


def _texts(data: memoryview, count: int, name: str) -> Iterator[bytes]:
    if count > MAX_VALUES:
        raise RequestError(f"The tensor {name} may hold {MAX_VALUES} texts at most", field=name)
    at = 0
    for _ in range(count):
        start = at + LENGTH_BYTES
        at = start + int.from_bytes(data[at:start], "little")
        if start > len(data) or at > len(data):
            raise RequestError(f"The bytes of the tensor {name} end within its {count} texts", field=name)
        yield bytes(data[start:at])
    if at != len(data):
        raise RequestError(f"The tensor {name} has {len(data) - at} bytes after its {count} texts", name)


def objects(texts: Sequence[bytes], shape: Sequence[int]) -> NDArray[Any]:
    """Texts as an array of their shape, which has as many elements."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)

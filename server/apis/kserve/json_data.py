"""Tensors as JSON: flat or nested lists of numbers, truth values and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from server.apis.kserve.datatypes import BINARY_ONLY, BYTES, datatype_of, dtype_of
from server.apis.kserve.shapes import num_elements

WHITESPACE = b" \t\r\n"


class Base64(msgspec.Struct):
    """Bytes as TensorFlow Serving writes them."""

    b64: bytes


KINDS: dict[str, Any] = {"b": bool, "u": int, "i": int, "f": float, "O": str}
"""numpy's kind of a type → what its elements are in JSON."""
KINDS_WITH_BASE64 = KINDS | {"O": str | Base64}


def from_json(data: memoryview, datatype: str, shape: Sequence[int], name: str) -> NDArray[Any]:
    """The array of a tensor: `data` is the text of its list.  Raises RequestError naming the tensor."""
    count = num_elements(shape, name)
    dtype_of(datatype, name)
    if datatype in BINARY_ONLY:
        raise RequestError(f"The tensor {name} is {datatype}, which JSON cannot hold: send bytes", name)
    array = nested_array(data, datatype, name, KINDS)
    if array.size != count:
        raise RequestError(
            f"The tensor {name} has {array.size} elements; its shape {list(shape)} takes {count}", field=name
        )
    return array.reshape(shape)


def nested_array(
    data: memoryview, datatype: str, name: str, kinds: Mapping[str, Any] = KINDS_WITH_BASE64
) -> NDArray[Any]:
    """The array whose shape is that of the lists in `data`.  Raises RequestError naming the tensor."""
    dtype = dtype_of("FP32" if datatype in BINARY_ONLY else datatype, name)
    try:
        values = _decoder(kinds[dtype.kind], _depth(data)).decode(data)
        return _array(values, dtype).astype(dtype_of(datatype, name), copy=False)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(
            f"The data of the tensor {name} is not a list of {datatype}: {error}", name
        ) from None
    except (OverflowError, ValueError) as error:
        raise RequestError(f"The data of {name} does not fit {datatype}: {error}", name) from None


def to_json(array: NDArray[Any], name: str) -> Any:
    """The elements of an array as a flat list.  Raises RequestError for those that JSON cannot hold."""
    return json_values(array.ravel(), name)


def json_values(array: NDArray[Any], name: str) -> Any:
    """The elements in lists of the array's shape.  Raises RequestError for those that JSON cannot hold."""
    datatype = datatype_of(array)
    if datatype in BINARY_ONLY:
        raise RequestError(
            f"The output {name} is {datatype}, which JSON cannot hold; ask for `binary_data`", name
        )
    if datatype == BYTES:
        return _texts(array, name)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise RequestError(
            f"The output {name} holds infinity or NaN, which JSON cannot hold; ask for `binary_data`",
            name,
        )
    return array.tolist()


def _texts(array: NDArray[Any], name: str) -> Any:
    try:
        texts = [each.decode() for each in array.ravel()]
    except UnicodeDecodeError:
        raise RequestError(
            f"The output {name} holds bytes that are no text; ask for `binary_data`",
            field=name,
        ) from None
    return np.array(texts, object).reshape(array.shape).tolist()


def _array(values: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        array = np.array(values, dtype)
    if dtype.kind == "O":
        if any(isinstance(each, list) for each in array.flat):
            raise ValueError("its lists are of several lengths")
        array[...] = np.array([*map(_bytes, array.flat), None], object)[:-1].reshape(array.shape)
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("a number is out of its range")
    return array


def _bytes(text: str | Base64) -> bytes:
    return text.encode() if isinstance(text, str) else text.b64


@cache
def _decoder(kind: Any, depth: int) -> msgspec.json.Decoder[Any]:
    """Reads lists in lists, `depth` of them, of one kind of elements, and nothing else."""
    nested: Any = reduce(lambda inside, _: list[inside], range(depth), kind)  # type: ignore[valid-type]
    return msgspec.json.Decoder(nested)


def _depth(data: memoryview) -> int:
    """How deep the first element lies; the depth of a body is bounded before."""
    depth = 0
    for character in bytes(data[:1024]):
        if character == ord("["):
            depth += 1
        elif character not in WHITESPACE:
            break
    return depth

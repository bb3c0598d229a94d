"""Encodes embeddings and pooled outputs as JSON, base64 or raw bytes, in the number type requested."""

from __future__ import annotations

import binascii
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.requests.pooling.embedding import EncodedRequest
from server.apis.pooling.replies.reply_models import (
    EncodedReply,
    ReplyContext,
    encode_list,
    encode_list_reply,
)

Floats = NDArray[np.float32]
Vectors = Floats | list[Floats]
"""float32[num_texts, size], or a float32[num_tokens, size] for each text."""
OCTET_STREAM = "application/octet-stream"
ByteOrder = Literal["<", ">"]
ORDERS: dict[str, ByteOrder] = {
    "little": "<",
    "big": ">",
    "native": "<" if sys.byteorder == "little" else ">",
}


class VectorFormat(NamedTuple):
    """How numbers are encoded: `format` is float, base64, bytes or bytes_only."""

    format: str = "float"
    dtype: str = "float32"
    endianness: str = "native"


def requested_format(request: EncodedRequest) -> VectorFormat:
    """The format that a request selects; unset fields have the defaults of `VectorFormat`."""
    return VectorFormat(
        request.encoding_format or "float", request.embed_dtype or "float32", request.endianness or "native"
    )


def encode_vectors(
    context: ReplyContext, rows: Vectors, vector_format: VectorFormat, name: str, kind: str
) -> EncodedReply:
    """A list reply with an item per text; `name` is the field of the numbers, `kind` the item's `object`."""
    if vector_format.format in ("bytes", "bytes_only"):
        return _bytes(context, rows, vector_format)
    before = b'{"index":%%d,"object":"%b","%b":' % (kind.encode(), name.encode())
    values = enumerate(encode_values(rows, vector_format))
    return EncodedReply(
        encode_list_reply(context, (chain((before % i,), value, (b"}",)) for i, value in values))
    )


def encode_values(rows: Vectors, vector_format: VectorFormat) -> Iterator[Iterable[bytes]]:
    """The numbers of each text as JSON, in pieces, so that other threads can run between two pieces."""
    if vector_format.format == "base64":
        return (
            (b'"', binascii.b2a_base64(data, newline=False), b'"') for data in _packed(rows, vector_format)
        )
    return (_vector(row) if row.ndim == 1 else encode_list(map(_vector, row)) for row in rows)


def _vector(row: Floats) -> tuple[bytes]:
    return (msgspec.json.encode(row.tolist()),)


def _bytes(context: ReplyContext, rows: Vectors, vector_format: VectorFormat) -> EncodedReply:
    """All vectors concatenated; a header holds the offset of each, unless the format is bytes_only."""
    packed = list(_packed(rows, vector_format))
    headers = (
        {}
        if vector_format.format == "bytes_only"
        else {"metadata": _metadata(context, rows, packed, vector_format)}
    )
    return EncodedReply(b"".join(packed), OCTET_STREAM, headers)


def _metadata(context: ReplyContext, rows: Vectors, packed: list[bytes], vector_format: VectorFormat) -> str:
    ends = np.cumsum([len(data) for data in packed]).tolist()
    offsets = [
        {
            "index": i,
            "embed_dtype": vector_format.dtype,
            "endianness": vector_format.endianness,
            "start": end - len(data),
            "end": end,
            "shape": list(row.shape),
        }
        for i, (row, data, end) in enumerate(zip(rows, packed, ends, strict=True))
    ]
    usage = {"prompt_tokens": context.num_tokens, "total_tokens": context.num_tokens}
    reply = {"id": context.id, "created": context.created, "model": context.model}
    return json.dumps({**reply, "data": offsets, "usage": usage})


def _packed(rows: Vectors, vector_format: VectorFormat) -> Iterator[bytes]:
    order, convert = ORDERS[vector_format.endianness], DTYPES[vector_format.dtype]

    def packed(vector: Floats) -> bytes:
        numbers = convert(vector)
        return numbers.astype(numbers.dtype.newbyteorder(order), copy=False).tobytes()

    return (b"".join(map(packed, np.atleast_2d(row))) for row in rows)


def _half(values: Floats) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):  # too large a number becomes infinity
        return values.astype(np.float16)


class SmallFloat(NamedTuple):
    """A float format of 8 or 16 bits.

    It has `mantissa` bits after the point; `lowest` is the exponent of the smallest normal number, `top` the
    code for overflow, `nan` the code for NaN.
    """

    dtype: Any
    mantissa: int
    lowest: int
    top: int
    nan: int

    def codes(self, values: Floats) -> NDArray[Any]:
        """The codes of the nearest numbers of the format (ties to even, as in torch), of the same shape.

        The code of a number is its magnitude rounded to units in the last place of its binade, plus
        2^mantissa for each binade above the lowest.  Subnormal numbers, and numbers that round up to the next
        binade, need no case of their own.
        """
        with np.errstate(invalid="ignore"):  # NaN is handled below
            size = np.abs(values.astype(np.float64))
            exponent = np.frexp(np.maximum(size, 2.0**self.lowest))[1] - 1
            code = np.ldexp(1.0, self.mantissa) * (exponent - self.lowest)
            code = np.minimum(code + np.rint(np.ldexp(size, self.mantissa - exponent)), self.top)
        codes: NDArray[Any] = np.where(np.isnan(size), self.nan, code).astype(self.dtype)
        codes |= np.signbit(values).astype(self.dtype) << (8 * codes.itemsize - 1)
        return codes


DTYPES: dict[str, Callable[[Floats], NDArray[Any]]] = {
    "float32": lambda values: values,
    "float16": _half,
    "bfloat16": SmallFloat(np.uint16, 7, -126, 0x7F80, 0x7FC0).codes,
    "fp8_e4m3": SmallFloat(np.uint8, 3, -6, 0x7E, 0x7F).codes,
    "fp8_e5m2": SmallFloat(np.uint8, 2, -14, 0x7C, 0x7F).codes,
}
"""Name of a number type → converter to numbers of that type, or to their codes."""

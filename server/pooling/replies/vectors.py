"""Rows of numbers → JSON, base64 or bare bytes, in any of the types that a client may ask for.

Knows arrays and the fields that name the types; knows nothing of HTTP.
"""

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

from server.pooling.replies.schema import ReplyContext, Written, joined, listed
from server.pooling.requests.embedding import EncodedRequest

Floats = NDArray[np.float32]
Texts = Floats | list[Floats]
"""float32[num_texts, size], or a float32[num_tokens, size] for each text."""
OCTETS = "application/octet-stream"
Order = Literal["<", ">"]
ORDERS: dict[str, Order] = {"little": "<", "big": ">", "native": "<" if sys.byteorder == "little" else ">"}


class Form(NamedTuple):
    """How numbers are written: `format` is float, base64, bytes or bytes_only."""

    format: str = "float"
    dtype: str = "float32"
    endianness: str = "native"


def form_of(request: EncodedRequest) -> Form:
    """What a request asks for; what it does not say is as in `Form`."""
    return Form(
        request.encoding_format or "float", request.embed_dtype or "float32", request.endianness or "native"
    )


def vectors(head: ReplyContext, rows: Texts, form: Form, name: str, kind: str) -> Written:
    """A reply with a row, or a row for each token, for each text; `name` is its field, `kind` its object."""
    if form.format in ("bytes", "bytes_only"):
        return _bytes(head, rows, form)
    before = b'{"index":%%d,"object":"%b","%b":' % (kind.encode(), name.encode())
    values = enumerate(_values(rows, form))
    return Written(joined(head, (chain((before % i,), value, (b"}",)) for i, value in values)))


def _values(rows: Texts, form: Form) -> Iterator[Iterable[bytes]]:
    """Each text's part of the reply as JSON, in pieces: others may run between two of them."""
    if form.format == "base64":
        return ((b'"', binascii.b2a_base64(data, newline=False), b'"') for data in _packed(rows, form))
    return (_vector(row) if row.ndim == 1 else listed(map(_vector, row)) for row in rows)


def _vector(row: Floats) -> tuple[bytes]:
    return (msgspec.json.encode(row.tolist()),)


def _bytes(head: ReplyContext, rows: Texts, form: Form) -> Written:
    """All rows one behind the other; where each lies is told in a header, unless the client knows it."""
    packed = list(_packed(rows, form))
    headers = {} if form.format == "bytes_only" else {"metadata": _metadata(head, rows, packed, form)}
    return Written(b"".join(packed), OCTETS, headers)


def _metadata(head: ReplyContext, rows: Texts, packed: list[bytes], form: Form) -> str:
    ends = np.cumsum([len(data) for data in packed]).tolist()
    places = [
        {
            "index": i,
            "embed_dtype": form.dtype,
            "endianness": form.endianness,
            "start": end - len(data),
            "end": end,
            "shape": list(row.shape),
        }
        for i, (row, data, end) in enumerate(zip(rows, packed, ends, strict=True))
    ]
    usage = {"prompt_tokens": head.num_tokens, "total_tokens": head.num_tokens}
    told = {"id": head.id, "created": head.created, "model": head.model, "data": places, "usage": usage}
    return json.dumps(told)


def _packed(rows: Texts, form: Form) -> Iterator[bytes]:
    order, convert = ORDERS[form.endianness], DTYPES[form.dtype]

    def packed(vector: Floats) -> bytes:
        numbers = convert(vector)
        return numbers.astype(numbers.dtype.newbyteorder(order), copy=False).tobytes()

    return (b"".join(map(packed, np.atleast_2d(row))) for row in rows)


def _half(values: Floats) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):  # infinity is what a number too large becomes
        return values.astype(np.float16)


class Small(NamedTuple):
    """A float format by its bits.

    `mantissa` bits stand behind the point, `lowest` is the exponent of the smallest normal number, `top` the
    code of what is too large, `nan` that of no number.
    """

    dtype: Any
    mantissa: int
    lowest: int
    top: int
    nan: int

    def codes(self, values: Floats) -> NDArray[Any]:
        """The nearest numbers of the format, of two the even one, as torch rounds them; of the same shape.

        In units of the last place of its binade a number's code is its rounded size, and each binade above
        the lowest adds 2^mantissa: so numbers below the normal ones, and those that round up into the next
        binade, need no case of their own.
        """
        with np.errstate(invalid="ignore"):  # what is no number is looked at last
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
    "bfloat16": Small(np.uint16, 7, -126, 0x7F80, 0x7FC0).codes,
    "fp8_e4m3": Small(np.uint8, 3, -6, 0x7E, 0x7F).codes,
    "fp8_e5m2": Small(np.uint8, 2, -14, 0x7C, 0x7F).codes,
}
"""What a client may ask for → its numbers in that type, or their codes."""

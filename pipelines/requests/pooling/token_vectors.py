"""Vectors of tokens in a request, in the forms in which replies have them."""

from __future__ import annotations

import binascii

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError

Floats = NDArray[np.float32]


def read_vectors(numbers: str | list[list[float]] | None, half: bool, field: str) -> Floats | None:
    """The numbers, float32[tokens, size]; of base64 float32[tokens * size], whose size the model has.

    `half`: base64 is of float16, little-endian, else of float32.  Raises RequestError naming `field`.
    """
    if numbers is None:
        return None
    if isinstance(numbers, str):
        try:
            packed = binascii.a2b_base64(numbers, strict_mode=True)
            values = np.frombuffer(packed, "<f2" if half else "<f4").astype(np.float32)
        except ValueError:
            raise RequestError("must be the base64 of numbers in `embed_dtype`", field=field) from None
    else:
        if len({len(vector) for vector in numbers}) > 1:
            raise RequestError("the vectors of a text must have one size", field=field)
        values = np.array(numbers, np.float32)
    if not values.size or not np.isfinite(values).all():
        raise RequestError("must hold at least one vector of finite numbers", field=field)
    return values

"""Shapes as clients send them: checked before any memory is taken for their elements."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.base.errors import RequestError
from pipelines.wire.framing import MAX_FRAME_BYTES

MAX_AXES = 32
MAX_ELEMENTS = MAX_FRAME_BYTES
"""No tensor has more elements: each takes a byte at least."""


def num_elements(shape: Sequence[int], name: str) -> int:
    """How many elements a tensor has.  Raises RequestError for lengths and products out of bounds.

    Lengths count even where another one is 0, so that a model never meets a shape of impossible size.
    """
    if len(shape) > MAX_AXES:
        raise RequestError(f"The shape of the tensor {name} has more than {MAX_AXES} axes", field=name)
    product, bound = 1, 1
    for length in shape:
        if length < 0:
            raise RequestError(
                f"The shape of the tensor {name} is {list(shape)}: lengths are 0 or more", name
            )
        product, bound = product * length, bound * max(length, 1)
        if bound > MAX_ELEMENTS:
            raise RequestError(
                f"The shape of the tensor {name} is more than {MAX_ELEMENTS} elements",
                field=name,
            )
    return product

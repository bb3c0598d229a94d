"""Weights of a GGUF tensor as arrays: floats, or codes of blocks with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.gguf.errors import GgufError
from pipelines.gguf.reader import EVERY, GgufTensor, Rows
from pipelines.gguf.tensor_types import PACKED_TYPES, Bytes, Floats, Parts

EXPONENT = np.uint16(0x7F80)
"""The exponent bits of a bfloat16: all of them set in what is not finite."""
WIDER = 128 - 8
"""What is added to a code of 4 bits to keep its weight in 8."""
DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
"""Float type → how numpy views it; it has no bfloat16."""


def is_float(tensor: GgufTensor) -> bool:
    return tensor.type.name in DTYPES


def read_floats(tensor: GgufTensor) -> Floats:
    """float32[rows, width] of a tensor of float type."""
    return _as_float32(tensor, read_stored(tensor))


def _as_float32(tensor: GgufTensor, values: NDArray[Any]) -> Floats:
    if tensor.type.name == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def read_stored(tensor: GgufTensor, rows: slice | Rows = EVERY) -> NDArray[Any]:
    """[rows, width] of a tensor of float type, in that type; bfloat16 as uint16."""
    values: NDArray[Any] = tensor.read(rows).view(DTYPES[tensor.type.name])
    is_half = tensor.type.name == "BF16"
    _check_finite(tensor, (values & EXPONENT) != EXPONENT if is_half else np.isfinite(values))
    return values


def read_blocks(tensor: GgufTensor, rows: slice, order: Rows | None, bits: int) -> Parts:
    """Some rows of a quantized tensor, whose rows are taken in `order` if there is one: weight[n, k] =
    (code[n, k] - zero[n, block of k]) · scale[n, block of k].

    `bits`: 8 keeps codes of 4 in 8, with the same weights.
    """
    kind = tensor.type
    assert kind.read is not None, "a quantized type"
    raw = tensor.read(rows if order is None else order[rows])
    with np.errstate(all="ignore"):  # what is not finite is refused below
        parts = kind.read(raw.reshape(len(raw), -1, kind.bytes))
    for values in (parts.scales, parts.zeros):
        if values is not None:
            _check_finite(tensor, np.isfinite(values))
    return _widened(parts) if bits > kind.bits else parts


def read_any(tensor: GgufTensor, rows: slice = EVERY, order: Rows | None = None) -> Floats:
    """float32[rows, width] of some rows of a tensor of any type whose rows are taken in `order`."""
    if is_float(tensor):
        return _as_float32(tensor, read_stored(tensor, rows if order is None else order[rows]))
    parts = read_blocks(tensor, rows, order, 8)
    zeros = np.float32(WIDER + 8) if parts.zeros is None else parts.zeros[..., None]
    weights = (parts.codes.astype(np.float32) - zeros) * parts.scales[..., None]
    floats: Floats = weights.reshape(len(weights), tensor.width).astype(np.float32)
    return floats


def read_packed(tensor: GgufTensor, rows: slice | Rows = EVERY) -> Bytes:
    """uint8[rows, bytes of a row] of a tensor of `PACKED_TYPES`, its blocks as they are."""
    raw, at = tensor.read(rows), PACKED_TYPES[tensor.type.name]
    blocks = raw.reshape(-1, tensor.type.bytes)
    places = () if at is None else (at, at + 2) if tensor.type.has_zeros else (at,)
    for place in places:
        halves = np.ascontiguousarray(blocks[:, place : place + 2]).view(np.float16)
        _check_finite(tensor, np.isfinite(halves))
    return raw


def _check_finite(tensor: GgufTensor, are_finite: NDArray[np.bool_]) -> None:
    if not are_finite.all():
        raise GgufError(f"{tensor.name} holds weights that are not finite")


def _widened(parts: Parts) -> Parts:
    """Codes of 8 bits for codes of 4, which are two in a byte."""
    pairs = parts.codes
    codes: Bytes = np.empty((*pairs.shape[:-1], 2 * pairs.shape[-1]), np.uint8)
    codes[..., 0::2] = (pairs & 15) + np.uint8(WIDER)
    codes[..., 1::2] = (pairs >> 4) + np.uint8(WIDER)
    zeros = None if parts.zeros is None else parts.zeros + np.float32(WIDER)
    return Parts(codes, parts.scales, zeros)

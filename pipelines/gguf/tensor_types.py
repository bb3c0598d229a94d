"""The types of GGUF tensors, and their blocks as codes of 4 or 8 bits with a scale and a zero point each.

No weight is quantized again: weight = (code - zero) · scale is what GGUF says, in other places.  ggml keeps
the two halves of a block in the low and the high nibbles of its bytes; ONNX Runtime and OpenVINO keep
neighbours together, first the low nibble.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
SUPER = 256
"""Weights of a block of the K types, which holds smaller blocks."""


class Parts(NamedTuple):
    """Codes uint8[rows, blocks, block], one in each byte; scales and zero points float32[rows, blocks].

    Without zero points they are 2^(bits - 1).
    """

    codes: Bytes
    scales: Floats
    zeros: Floats | None = None


@dataclass(frozen=True)
class TensorType:
    """`bytes` hold `weights` weights.  Quantized types have codes of `bits`, `block` of them to a scale, and
    `read`, from uint8[rows, groups, bytes]; float types have a numpy `dtype` of the same bytes.
    """

    name: str
    weights: int
    bytes: int
    bits: int = 0
    block: int = 0
    read: Callable[[Bytes], Parts] | None = None
    has_zeros: bool = False


def _half(raw: Bytes, at: int) -> Floats:
    """The float16 at byte `at` of each block, float32[..., 1]."""
    return np.ascontiguousarray(raw[..., at : at + 2]).view(np.float16).astype(np.float32)


def _nibbles(raw: Bytes) -> Bytes:
    """Low nibbles of a run of bytes, then their high ones."""
    return np.concatenate([raw & np.uint8(15), raw >> np.uint8(4)], -1)


def _fifth_bits(raw: Bytes) -> Bytes:
    """Four bytes → the fifth bits of 32 codes, in their place."""
    bits = np.ascontiguousarray(raw).view("<u4") >> np.arange(32, dtype=np.uint32) & 1
    return (bits << 4).astype(np.uint8)


def _with_least(codes: Bytes, scales: Floats, least: Floats, shift: int = 0) -> Parts:
    """weight = code · scale + least, whose codes become larger by `shift`.

    A block whose weights are all its least one has a scale of 0, and no zero point: there code is 0, zero is
    -1 and the weight is the scale.
    """
    is_constant = scales == 0
    divisors = np.where(is_constant, np.float32(1), scales)
    zeros = np.where(is_constant, np.float32(-1), np.float32(shift) - least / divisors)
    codes = np.where(is_constant[..., None], np.uint8(0), codes + np.uint8(shift))
    return Parts(codes, np.where(is_constant, least, scales), zeros)


def _q4_0(raw: Bytes) -> Parts:
    return Parts(_nibbles(raw[..., 2:18]), _half(raw, 0)[..., 0])


def _q4_1(raw: Bytes) -> Parts:
    scale, least = _half(raw, 0)[..., 0], _half(raw, 2)[..., 0]
    return _with_least(_nibbles(raw[..., 4:20]), scale, least)


def _q5_0(raw: Bytes) -> Parts:
    codes = _nibbles(raw[..., 6:22]) | _fifth_bits(raw[..., 2:6])
    return Parts(codes + np.uint8(128 - 16), _half(raw, 0)[..., 0])


def _q5_1(raw: Bytes) -> Parts:
    codes = _nibbles(raw[..., 8:24]) | _fifth_bits(raw[..., 4:8])
    scale, least = _half(raw, 0)[..., 0], _half(raw, 2)[..., 0]
    return _with_least(codes, scale, least, 128 - 16)


def _q8_0(raw: Bytes) -> Parts:
    return Parts(raw[..., 2:34] ^ np.uint8(128), _half(raw, 0)[..., 0])


def _k_scales(raw: Bytes) -> tuple[Floats, Floats]:
    """Twelve bytes → eight scales and eight minima of 6 bits."""
    first, second, high = raw[..., 0:4], raw[..., 4:8], raw[..., 8:12]
    scales = np.concatenate([first & 63, high & 15 | first >> 6 << 4], -1)
    minima = np.concatenate([second & 63, high >> 4 | second >> 6 << 4], -1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _k_blocks(raw: Bytes, fifth: Bytes | None = None) -> Parts:
    """Blocks of 256 → 8 of 32.  A float16 times 6 bits is exact in float32."""
    rows, count, _ = raw.shape
    scales, minima = _k_scales(raw[..., 4:16])
    scales, least = _half(raw, 0) * scales, -(_half(raw, 2) * minima)
    codes = _nibbles(raw[..., -128:].reshape(rows, count, 4, 32)).reshape(rows, count, 8, 32)
    if fifth is not None:
        bits = fifth[:, :, None] >> np.arange(8, dtype=np.uint8)[:, None] & np.uint8(1)
        codes = codes | bits << np.uint8(4)
    flat = (rows, count * 8)
    shift = 0 if fifth is None else 128 - 16
    return _with_least(codes.reshape(*flat, 32), scales.reshape(flat), least.reshape(flat), shift)


def _q4_k(raw: Bytes) -> Parts:
    return _k_blocks(raw)


def _q5_k(raw: Bytes) -> Parts:
    return _k_blocks(raw, raw[..., 16:48])


def _q6_k(raw: Bytes) -> Parts:
    """Blocks of 256 → 16 of 16."""
    rows, count, _ = raw.shape
    low = raw[..., :128].reshape(rows, count, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None]
    high = raw[..., 128:192].reshape(rows, count, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    low, high = low & np.uint8(15), high & np.uint8(3)
    codes = low.reshape(rows, count, SUPER) | high.reshape(rows, count, SUPER) << np.uint8(4)
    scales = _half(raw, 208) * np.ascontiguousarray(raw[..., 192:208]).view(np.int8)
    flat = (rows, count * 16)
    return Parts((codes + np.uint8(128 - 32)).reshape(*flat, 16), scales.reshape(flat))


TENSOR_TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18, 4, 32, _q4_0),
    3: TensorType("Q4_1", 32, 20, 4, 32, _q4_1, has_zeros=True),
    6: TensorType("Q5_0", 32, 22, 8, 32, _q5_0),
    7: TensorType("Q5_1", 32, 24, 8, 32, _q5_1, has_zeros=True),
    8: TensorType("Q8_0", 32, 34, 8, 32, _q8_0),
    12: TensorType("Q4_K", SUPER, 144, 4, 32, _q4_k, has_zeros=True),
    13: TensorType("Q5_K", SUPER, 176, 8, 32, _q5_k, has_zeros=True),
    14: TensorType("Q6_K", SUPER, 210, 8, 16, _q6_k),
    30: TensorType("BF16", 1, 2),
}
"""Number of a type in the file → the type."""
OTHER_TYPES = {
    10: "Q2_K",
    11: "Q3_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}
"""Number → name of types that are not served, for messages."""

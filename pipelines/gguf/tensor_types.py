"""The types of GGUF tensors, and their blocks as codes of 4 or 8 bits with a scale and a zero point each.

No weight is quantized again: weight = (code - zero) · scale is what GGUF says, in other places.  ggml keeps
the two halves of a block in the low and the high nibbles of its bytes; ONNX Runtime and OpenVINO keep
neighbours together, first the low nibble.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Words = NDArray[np.uint64]
SUPER = 256
"""Weights of a block of the K types, which holds smaller blocks."""


def each_byte(value: int) -> np.uint64:
    """A word whose eight bytes are `value`."""
    return np.uint64(value * 0x0101010101010101)


class Parts(NamedTuple):
    """Codes uint8[rows, blocks, block · bits / 8], of 4 bits two in a byte, the first one in its low half;
    scales and zero points float32[rows, blocks].

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


def _words(raw: Bytes, at: int, size: int) -> Words:
    """The bytes [at, at + size) of each block as uint64[..., size / 8], in memory of their own.

    Copied word by word of all blocks: numpy takes as long for the few bytes of one block as for many.
    """
    words = raw[..., at : at + size].view("<u8")
    copied = np.empty(words.shape, np.uint64)
    for column in range(words.shape[-1]):
        copied[..., column] = words[..., column]
    return copied


def _nibbles(raw: Bytes) -> Bytes:
    """Low nibbles of a run of bytes, then their high ones."""
    return np.concatenate([raw & np.uint8(15), raw >> np.uint8(4)], -1)


def _pairs(raw: Bytes, at: int, size: int, run: int) -> Bytes:
    """Runs of bytes, whose codes are their low nibbles, then their high ones → two neighbours in a byte."""
    pairs = _words(raw, at, size).view("<u2")  # two low nibbles, and their high ones
    low = ((pairs & 15) | (pairs >> 4 & 240)).astype(np.uint8).view(np.uint64)
    high = ((pairs >> 4 & 15) | (pairs >> 8 & 240)).astype(np.uint8).view(np.uint64)
    words = np.empty((*raw.shape[:-1], size // 8), np.uint64)
    half = run // 16
    for column in range(size // 16):
        to = column + column // half * half
        words[..., to], words[..., to + half] = low[..., column], high[..., column]
    return words.view(np.uint8)


def _fifth_bits(raw: Bytes) -> Bytes:
    """Four bytes → the fifth bits of 32 codes, in their place."""
    bits = np.ascontiguousarray(raw).view("<u4") >> np.arange(32, dtype=np.uint32) & 1
    return (bits << 4).astype(np.uint8)


def _with_least(codes: Bytes, scales: Floats, least: Floats, shift: int = 0) -> Parts:
    """weight = code · scale + least; `codes` are made larger by `shift`, in place.

    A block whose weights are all its least one has a scale of 0, and no zero point: there code is 0, zero is
    -1 and the weight is the scale.
    """
    is_constant = scales == 0
    divisors = np.where(is_constant, np.float32(1), scales)
    zeros = np.where(is_constant, np.float32(-1), np.float32(shift) - least / divisors)
    if shift:
        codes += np.uint8(shift)
    if is_constant.any():
        codes[is_constant] = 0
        scales = np.where(is_constant, least, scales)
    return Parts(codes, scales, zeros)


def _q4_0(raw: Bytes) -> Parts:
    return Parts(_pairs(raw, 2, 16, 16), _half(raw, 0)[..., 0])


def _q4_1(raw: Bytes) -> Parts:
    scale, least = _half(raw, 0)[..., 0], _half(raw, 2)[..., 0]
    return _with_least(_pairs(raw, 4, 16, 16), scale, least)


def _q5_0(raw: Bytes) -> Parts:
    codes = _nibbles(raw[..., 6:22]) | _fifth_bits(raw[..., 2:6])
    return Parts(codes + np.uint8(128 - 16), _half(raw, 0)[..., 0])


def _q5_1(raw: Bytes) -> Parts:
    codes = _nibbles(raw[..., 8:24]) | _fifth_bits(raw[..., 4:8])
    scale, least = _half(raw, 0)[..., 0], _half(raw, 2)[..., 0]
    return _with_least(codes, scale, least, 128 - 16)


def _q8_0(raw: Bytes) -> Parts:
    return Parts((_words(raw, 2, 32) ^ each_byte(128)).view(np.uint8), _half(raw, 0)[..., 0])


def _k_scales(raw: Bytes) -> tuple[Floats, Floats]:
    """Twelve bytes → eight scales and eight minima of 6 bits."""
    first, second, high = raw[..., 0:4], raw[..., 4:8], raw[..., 8:12]
    scales = np.concatenate([first & 63, high & 15 | first >> 6 << 4], -1)
    minima = np.concatenate([second & 63, high >> 4 | second >> 6 << 4], -1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _k_blocks(raw: Bytes, codes: Bytes, shift: int = 0) -> Parts:
    """Blocks of 256, whose `codes` begin in blocks of 32.  A float16 times 6 bits is exact in float32."""
    rows, count, _ = raw.shape
    scales, minima = _k_scales(raw[..., 4:16])
    scales, least = _half(raw, 0) * scales, -(_half(raw, 2) * minima)
    flat = (rows, count * 8)
    return _with_least(codes.reshape(*flat, -1), scales.reshape(flat), least.reshape(flat), shift)


def _q4_k(raw: Bytes) -> Parts:
    return _k_blocks(raw, _pairs(raw, 16, 128, 32))


def _q5_k(raw: Bytes) -> Parts:
    rows, count, _ = raw.shape
    codes = _nibbles(raw[..., 48:].reshape(rows, count, 4, 32)).reshape(rows, count, 8, 32)
    bits = raw[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & np.uint8(1)
    return _k_blocks(raw, codes | bits << np.uint8(4), 128 - 16)


def _q6_k(raw: Bytes) -> Parts:
    """Blocks of 256 → 16 of 16.  Each half of one: 64 bytes of low nibbles, of which the second ones are
    codes too, and 32 bytes with two more bits of four codes each.
    """
    low, high = (_words(raw, at, size).reshape(-1, size // 8).T.copy() for at, size in ((0, 128), (128, 64)))
    codes = np.empty((SUPER // 8, low.shape[1]), np.uint64)
    for half, quarter in product(range(2), range(4)):
        begin = 8 * half + 4 * (quarter % 2)
        nibbles = low[begin : begin + 4] >> np.uint64(quarter // 2 * 4) & each_byte(15)
        bits = high[4 * half : 4 * half + 4] >> np.uint64(2 * quarter) & each_byte(3)
        begin = 16 * half + 4 * quarter
        codes[begin : begin + 4] = (nibbles | bits << np.uint64(4)) + each_byte(128 - 32)
    scales = _half(raw, 208) * np.ascontiguousarray(raw[..., 192:208]).view(np.int8)
    flat = (len(raw), raw.shape[1] * 16)
    return Parts(codes.T.copy().view(np.uint8).reshape(*flat, 16), scales.reshape(flat))


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

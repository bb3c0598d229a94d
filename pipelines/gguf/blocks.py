"""Blocks of quantized tensors as codes of 4 or 8 bits with a scale and a zero point each.

No weight is quantized again: weight = (code - zero) · scale is what GGUF says, in other places.  ggml keeps
the two halves of a block in the low and the high nibbles of its bytes; ONNX Runtime and OpenVINO keep
neighbours together, first the low nibble.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Words = NDArray[np.uint64]
SUPER = 256
"""Weights of a block of the K and IQ types, which holds smaller blocks."""


class Parts(NamedTuple):
    """Codes uint8[rows, blocks, block · bits / 8], of 4 bits two in a byte, the first one in its low half;
    scales and zero points float32[rows, blocks].

    Without zero points they are 2^(bits - 1).
    """

    codes: Bytes
    scales: Floats
    zeros: Floats | None = None


def each_byte(value: int) -> np.uint64:
    """A word whose eight bytes are `value`."""
    return np.uint64(value * 0x0101010101010101)


def half(raw: Bytes, at: int) -> Floats:
    """The float16 at byte `at` of each block, float32[..., 1]."""
    return np.ascontiguousarray(raw[..., at : at + 2]).view(np.float16).astype(np.float32)


def words(raw: Bytes, at: int, size: int) -> Words:
    """The bytes [at, at + size) of each block as uint64[..., size / 8], in memory of their own.

    Copied word by word of all blocks: numpy takes as long for the few bytes of one block as for many.
    """
    views = raw[..., at : at + size].view("<u8")
    copied = np.empty(views.shape, np.uint64)
    for column in range(views.shape[-1]):
        copied[..., column] = views[..., column]
    return copied


def unpack(raw: Bytes, at: int, size: int, bits: int, run: int) -> Bytes:
    """The codes in the bytes [at, at + size) of each block, uint8[..., size · 8 / bits].

    Each `run` bytes hold 8 / bits runs of codes: those of the first one are the lowest bits.
    """
    if run % 8 == 0:
        return _unpack_words(words(raw, at, size), bits, run // 8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    runs = raw[..., at : at + size].reshape(*raw.shape[:-1], size // run, 1, run)
    return (runs >> shifts & np.uint8((1 << bits) - 1)).reshape(*raw.shape[:-1], -1)


def _unpack_words(packed: Words, bits: int, run: int) -> Bytes:
    """Codes are unpacked word by word of all blocks, as in `words`; `run` counts words."""
    num_words, num_runs = packed.shape[-1], 8 // bits
    codes = np.empty((*packed.shape[:-1], num_words * num_runs), np.uint64)
    for word, number in product(range(num_words), range(num_runs)):
        to = (word // run * num_runs + number) * run + word % run
        codes[..., to] = packed[..., word] >> np.uint64(number * bits) & each_byte((1 << bits) - 1)
    return codes.view(np.uint8)


def join_pairs(codes: Bytes) -> Bytes:
    """Codes of 4 bits → two neighbours in a byte."""
    pairs = np.ascontiguousarray(codes).view("<u2")
    joined: Bytes = (pairs | pairs >> 4).astype(np.uint8)
    return joined


def in_blocks(codes: Bytes, scales: Floats, block: int) -> Parts:
    """Codes of 8 bits [rows, groups, weights] and the scales of each `block` of them."""
    flat = (len(codes), codes[0].size // block)
    return Parts(codes.reshape(*flat, block), scales.reshape(flat))


def with_least(codes: Bytes, scales: Floats, least: Floats, shift: int = 0) -> Parts:
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

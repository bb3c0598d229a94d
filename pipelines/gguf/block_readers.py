"""Reads the blocks of Q4_0 to Q8_0 and Q4_K to Q6_K: evenly spaced weights of four to eight bits."""

from __future__ import annotations

from itertools import product

import numpy as np

from pipelines.gguf.blocks import SUPER, Bytes, Floats, Parts, each_byte, half, unpack, with_least, words


def _pairs(raw: Bytes, at: int, size: int, run: int) -> Bytes:
    """Runs of bytes, whose codes are their low nibbles, then their high ones → two neighbours in a byte."""
    pairs = words(raw, at, size).view("<u2")  # two low nibbles, and their high ones
    low = ((pairs & 15) | (pairs >> 4 & 240)).astype(np.uint8).view(np.uint64)
    high = ((pairs >> 4 & 15) | (pairs >> 8 & 240)).astype(np.uint8).view(np.uint64)
    joined = np.empty((*raw.shape[:-1], size // 8), np.uint64)
    step = run // 16
    for column in range(size // 16):
        to = column + column // step * step
        joined[..., to], joined[..., to + step] = low[..., column], high[..., column]
    return joined.view(np.uint8)


def _five_bits(raw: Bytes, at: int) -> Bytes:
    """Four bytes with the fifth bits of 32 codes, and sixteen with the others."""
    return unpack(raw, at + 4, 16, 4, 16) | unpack(raw, at, 4, 1, 1) << np.uint8(4)


def read_q4_0(raw: Bytes) -> Parts:
    return Parts(_pairs(raw, 2, 16, 16), half(raw, 0)[..., 0])


def read_q4_1(raw: Bytes) -> Parts:
    scale, least = half(raw, 0)[..., 0], half(raw, 2)[..., 0]
    return with_least(_pairs(raw, 4, 16, 16), scale, least)


def read_q5_0(raw: Bytes) -> Parts:
    return Parts(_five_bits(raw, 2) + np.uint8(128 - 16), half(raw, 0)[..., 0])


def read_q5_1(raw: Bytes) -> Parts:
    scale, least = half(raw, 0)[..., 0], half(raw, 2)[..., 0]
    return with_least(_five_bits(raw, 4), scale, least, 128 - 16)


def read_q8_0(raw: Bytes) -> Parts:
    return Parts((words(raw, 2, 32) ^ each_byte(128)).view(np.uint8), half(raw, 0)[..., 0])


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
    scales, least = half(raw, 0) * scales, -(half(raw, 2) * minima)
    flat = (rows, count * 8)
    return with_least(codes.reshape(*flat, -1), scales.reshape(flat), least.reshape(flat), shift)


def read_q4_k(raw: Bytes) -> Parts:
    return _k_blocks(raw, _pairs(raw, 16, 128, 32))


def read_q5_k(raw: Bytes) -> Parts:
    codes = unpack(raw, 48, 128, 4, 32) | unpack(raw, 16, 32, 1, 32) << np.uint8(4)
    return _k_blocks(raw, codes, 128 - 16)


def read_q6_k(raw: Bytes) -> Parts:
    """Blocks of 256 → 16 of 16.  Each half of one: 64 bytes of low nibbles, of which the second ones are
    codes too, and 32 bytes with two more bits of four codes each.
    """
    low, high = (words(raw, at, size).reshape(-1, size // 8).T.copy() for at, size in ((0, 128), (128, 64)))
    codes = np.empty((SUPER // 8, low.shape[1]), np.uint64)
    for side, quarter in product(range(2), range(4)):
        begin = 8 * side + 4 * (quarter % 2)
        nibbles = low[begin : begin + 4] >> np.uint64(quarter // 2 * 4) & each_byte(15)
        bits = high[4 * side : 4 * side + 4] >> np.uint64(2 * quarter) & each_byte(3)
        begin = 16 * side + 4 * quarter
        codes[begin : begin + 4] = (nibbles | bits << np.uint64(4)) + each_byte(128 - 32)
    scales = half(raw, 208) * np.ascontiguousarray(raw[..., 192:208]).view(np.int8)
    flat = (len(raw), raw.shape[1] * 16)
    return Parts(codes.T.copy().view(np.uint8).reshape(*flat, 16), scales.reshape(flat))

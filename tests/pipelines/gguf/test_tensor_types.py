"""Blocks of every quantized type are the weights that the `gguf` package makes of them, to the last bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from pipelines.gguf.tensor_types import TENSOR_TYPES

ROWS, GROUPS = 32, 24
BIT_TYPES = {"Q1_0": (1, 2, -1), "Q2_0": (2, 1, -1)}
"""Types that the package does not dequantize → bits of a code, factor and summand of its weight."""
QUANTIZED = [number for number, kind in TENSOR_TYPES.items() if kind.read]


def blocks_of(kind):
    return np.random.default_rng(7).integers(0, 256, (ROWS, GROUPS, kind.bytes), np.uint8)


def weights(kind, parts):
    """float32 of codes, scales and zero points."""
    codes = parts.codes
    if kind.bits == 4:
        codes = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1)
    assert codes.shape == (*parts.scales.shape, kind.block)
    zeros = 2 ** (kind.bits - 1) if parts.zeros is None else parts.zeros[..., None]
    return ((codes.astype(np.float32) - zeros) * parts.scales[..., None]).reshape(ROWS, -1)


def by_bits(raw, bits, factor, summand):
    """Codes one after the other, from the lowest bit of the first byte, behind a float16."""
    spread = np.unpackbits(raw[..., 2:], axis=-1, bitorder="little")
    codes = spread.reshape(*raw.shape[:-1], -1, bits) @ (1 << np.arange(bits))
    scale = np.ascontiguousarray(raw[..., :2]).view(np.float16).astype(np.float32)
    return (scale * (factor * codes + summand).astype(np.float32)).reshape(ROWS, -1)


@pytest.mark.parametrize("number", QUANTIZED, ids=[TENSOR_TYPES[number].name for number in QUANTIZED])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_blocks_are_their_dequantized_weights(number):
    kind = TENSOR_TYPES[number]
    raw = blocks_of(kind)
    with np.errstate(all="ignore"):
        values = weights(kind, kind.read(raw.copy()))
        if kind.name in BIT_TYPES:
            wanted = by_bits(raw, *BIT_TYPES[kind.name])
        else:
            wanted = gguf.quants.dequantize(raw.reshape(ROWS, -1), Type(number))
    finite = np.isfinite(wanted) & np.isfinite(values)
    assert finite.mean() > 0.85, "random float16 are finite but for one in 32"
    if kind.has_zeros:  # a least weight becomes a zero point, which is rounded once
        scale = np.nanmax(np.where(finite, abs(wanted), 0).reshape(ROWS, -1, kind.block), -1, keepdims=True)
        errors = abs(values - wanted).reshape(ROWS, -1, kind.block) / np.maximum(scale, 1e-30)
        assert np.where(finite.reshape(errors.shape), errors, 0).max() < 1e-5
    else:
        np.testing.assert_array_equal(values[finite], wanted[finite])


def test_every_quantized_type_of_the_package_is_read():
    left = {
        int(kind) for kind in Type if gguf.GGML_QUANT_SIZES[kind][0] > 1 and not kind.name.startswith("Q8_1")
    }
    assert {Type(number).name for number in left - set(TENSOR_TYPES)} == {"Q8_K"}

"""Weights of a GGUF tensor as arrays: floats, or packed blocks with scales and offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.gguf.errors import GgufError
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.tensor_types import Bytes, Floats

SLICE_WEIGHTS = 1 << 20
"""Weights that are unpacked at once, so that memory is bounded however large a tensor is."""
EXPONENT = np.uint16(0x7F80)
"""The exponent bits of a bfloat16: all of them set in what is not finite."""
WIDER = 128 - 8
"""What is added to a code of 4 bits to keep its weight in 8."""
DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
"""Float type → how numpy views it; it has no bfloat16."""

Rows = NDArray[np.int64]
"""Which row of the tensor becomes each row of the weights."""


@dataclass(frozen=True)
class BlockWeights:
    """weight[n, k] = (code[n, k] - zeros[n, block of k]) · scales[n, block of k].

    `packed` is uint8[rows, blocks, block · bits / 8]; scales and zeros are float32[rows, blocks].  Without
    zeros they are 2^(bits - 1).
    """

    packed: Bytes
    bits: int
    block: int
    scales: Floats
    zeros: Floats | None


def is_float(tensor: GgufTensor) -> bool:
    return tensor.type.name in DTYPES


def read_floats(tensor: GgufTensor) -> Floats:
    """float32[rows, width] of a tensor of float type."""
    values = view_floats(tensor)
    if tensor.type.name == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def view_floats(tensor: GgufTensor) -> NDArray[Any]:
    """[rows, width] of a tensor of float type, mapped; bfloat16 as uint16."""
    values: NDArray[Any] = tensor.data.view(DTYPES[tensor.type.name])
    is_half = tensor.type.name == "BF16"
    _check_finite(tensor, (values & EXPONENT) != EXPONENT if is_half else np.isfinite(values))
    return values


def read_blocks(tensor: GgufTensor, order: Rows | None = None, widen: bool = False) -> BlockWeights:
    """The blocks of a quantized tensor; `widen` keeps codes of 4 bits in 8, with the same weights."""
    kind = tensor.type
    assert kind.read is not None, "a quantized type"
    bits = 8 if widen else kind.bits
    blocks = tensor.width // kind.block
    packed = np.empty((tensor.rows, blocks, kind.block * bits // 8), np.uint8)
    scales = np.empty((tensor.rows, blocks), np.float32)
    zeros = np.empty_like(scales) if kind.has_zeros else None
    step = max(SLICE_WEIGHTS // tensor.width, 1)
    for begin in range(0, tensor.rows, step):
        rows = slice(begin, begin + step)
        raw = tensor.data[rows if order is None else order[rows]]
        with np.errstate(all="ignore"):  # what is not finite is refused below
            parts = kind.read(raw.reshape(len(raw), -1, kind.bytes))
        packed[rows] = _pack(parts.codes, kind.bits, bits)
        scales[rows] = parts.scales
        if zeros is not None and parts.zeros is not None:
            zeros[rows] = parts.zeros + np.float32(WIDER if bits > kind.bits else 0)
    for values in (scales, zeros):
        if values is not None:
            _check_finite(tensor, np.isfinite(values))
    return BlockWeights(packed, bits, kind.block, scales, zeros)


def joined(parts: Sequence[BlockWeights]) -> BlockWeights:
    """The rows of weights of one type, one weight after the other."""
    zeros = [each.zeros for each in parts if each.zeros is not None]
    return replace(
        parts[0],
        packed=np.concatenate([each.packed for each in parts]),
        scales=np.concatenate([each.scales for each in parts]),
        zeros=np.concatenate(zeros) if zeros else None,
    )


def side_by_side(tensor: GgufTensor, count: int) -> GgufTensor:
    """`count` weights that lie one after the other in a tensor, as one weight of their rows joined."""
    rows = tensor.rows // count
    data = tensor.data.reshape(count, rows, -1).swapaxes(0, 1).reshape(rows, -1)
    return replace(tensor, rows=rows, width=tensor.width * count, data=data)


def _check_finite(tensor: GgufTensor, are_finite: NDArray[np.bool_]) -> None:
    if not are_finite.all():
        raise GgufError(f"{tensor.name} holds weights that are not finite")


def _pack(codes: Bytes, bits: int, into: int) -> Bytes:
    if into == 4:
        return codes[..., 0::2] | codes[..., 1::2] << np.uint8(4)
    return codes if bits == 8 else codes + np.uint8(WIDER)

"""Recurrent layers on the device, over rows of states; a step's records say who reads and writes which row.

In a decoder ONNX Runtime launches the same kernels itself (`ops/cpu/state_operators.hpp`); these functions
are for arrays that lie on a device.  What each computes is in `pipelines.onnx_format.recurrent_format`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.cuda.device import Array, Device
from ops.cuda.kernel_sources import WARP, state_sizes

KERNELS = ("short_convolution", "gated_delta_net", "gated_delta_net_wide", "mamba2", "mamba2_wide")
"""In the order in which the operators' library knows them."""
SIZES = state_sizes()
RECORD = SIZES["WRITTEN_ROWS"]
"""Integers before the written rows in a record: see `recurrent.cu`."""
NARROW, WIDEST = SIZES["STATE_NARROW"], SIZES["STATE_WIDEST"]
"""The longest rows of a state that the kernels of each width take, in numbers."""
ROWS_OF_BLOCK, THREADS = SIZES["STATE_ROWS"] * SIZES["STATE_WARPS"], SIZES["STATE_WARPS"] * WARP
TYPES: dict[Any, int] = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.uint16): 2}
"""Element type → its number in the kernels; uint16 stands for bfloat16, which numpy lacks."""


def records(
    starts: NDArray[np.int32],
    num_past: NDArray[np.int32],
    interval: NDArray[np.int32],
    table: NDArray[np.int32],
) -> NDArray[np.int32]:
    """int32[num_seqs, RECORD - 1 + columns]: the records of sequences whose tokens begin at `starts`,
    int32[num_seqs + 1], after `num_past` others.

    `table`, int32[num_seqs, columns]: the row that is read, and those that are written.
    """
    lead = [starts[:-1], starts[1:], num_past % interval, interval]
    return np.concatenate([np.stack(lead, axis=1), table], axis=1, dtype=np.int32)


def short_convolution(
    device: Device, rows: Array, weight: Array, bias: Array, steps: Array, states: Array
) -> Array:
    """float32[T, channels] of `rows` [T, channels] of any type: their sums with `weight`,
    float32[channels, 1, kernel], and `bias`.

    `steps`: records.  `states`, float32[num_rows, channels, kernel], is read and written.
    """
    (channels, kernel), total = states.shape[1:], math.prod(rows.shape)
    mixed = device.empty(rows.shape, np.float32)
    sizes = (np.int32(steps.shape[1]), np.int32(len(steps)), np.int32(channels), np.int32(kernel))
    arguments = (rows, _type(rows), weight, bias, steps, *sizes, np.int64(total))
    device.launch("short_convolution", -(-total // THREADS), THREADS, *arguments, states, mixed)
    return mixed


def gated_delta_net(
    device: Device, inputs: tuple[Array, ...], epsilon: float, steps: Array, states: Array
) -> Array:
    """float32[T, value_heads, value_size] of query, key [T, key_heads, key_size], value [T, value_heads,
    value_size], decay, beta [T, value_heads], all of one type.

    `states`: float32[num_rows, value_heads, value_size, key_size].
    """
    query, value = inputs[0], inputs[2]
    _, heads, size, key_size = states.shape
    mixed = device.empty(value.shape, np.float32)
    sizes = (np.int32(query.shape[1]), np.int32(key_size), np.int32(heads), np.int32(size))
    arguments = (*inputs, _type(query), steps, np.int32(steps.shape[1]), *sizes, np.int32(_tiles(size)))
    blocks = len(steps) * heads * _tiles(size)
    device.launch(
        _of_width("gated_delta_net", key_size),
        blocks,
        THREADS,
        *arguments,
        np.float32(epsilon),
        states,
        mixed,
    )
    return mixed


def mamba2(device: Device, inputs: tuple[Array, ...], decay: Array, steps: Array, states: Array) -> Array:
    """float32[T, heads, head_size] of values [T, heads, head_size], steps [T, heads], written, read
    [T, groups, state_size], all of one type, and `decay`, float32[heads].

    `states`: float32[num_rows, heads, head_size, state_size].
    """
    values, written = inputs[0], inputs[2]
    _, heads, size, state_size = states.shape
    mixed = device.empty(values.shape, np.float32)
    sizes = (np.int32(heads), np.int32(size), np.int32(written.shape[1]), np.int32(state_size))
    arguments = (
        *inputs,
        _type(values),
        decay,
        steps,
        np.int32(steps.shape[1]),
        *sizes,
        np.int32(_tiles(size)),
    )
    blocks = len(steps) * heads * _tiles(size)
    device.launch(_of_width("mamba2", state_size), blocks, THREADS, *arguments, states, mixed)
    return mixed


def _type(values: Array) -> np.int32:
    return np.int32(TYPES[np.dtype(values.dtype)])


def _tiles(rows_of_head: int) -> int:
    return -(-rows_of_head // ROWS_OF_BLOCK)


def _of_width(kernel: str, size: int) -> str:
    """The kernel for rows of `size` numbers.  Raises ValueError."""
    if size > WIDEST:
        raise ValueError(f"{kernel} takes states with rows of at most {WIDEST} numbers, not {size}")
    return kernel if size <= NARROW else f"{kernel}_wide"

"""`PoolingOps` on a GPU: values stay on the device, and only fetched results are downloaded.

Reference: `ops.pooling`; the kernels are in pooling.cu.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ops.contract import Bools, Floats, Index
from ops.cuda.device import Array, Device
from ops.cuda.kernel_sources import WARP

THREADS = 256
TYPES = {"float32": 0, "float16": 1, "uint16": 2}
"""Types of values by their array type's name; bfloat16, which numpy lacks, is uint16."""
POOLINGS = {"cls": 0, "last": 1, "max": 2, "mean": 3, "mean_sqrt_len": 4, "weighted_mean": 5}
ACTIVATIONS = {"identity": 0, "tanh": 1, "relu": 2, "gelu": 3, "sigmoid": 4, "silu": 5}

DeviceLock = Callable[[], AbstractContextManager[None]]


class CudaPoolingOps:
    """The arithmetic on encoders' outputs, on one device.

    Values may be float16 or bfloat16, as the model computes them; results are float32, and computed in
    float32.  All methods but `fetch` return before the device has computed anything.
    """

    def __init__(self, device: Device, calls: DeviceLock = nullcontext) -> None:
        """`calls` is held while memory is allocated or the device is waited for."""
        self._device = device
        self._calls = calls

    def pool(self, values: Array, lengths: Index, how: str) -> Array:
        """See the interface.  Entries after a text's end are not read."""
        num_texts, width, size = values.shape
        _check_lengths(lengths, num_texts, width)
        parts = -(-size // WARP)
        numbers = np.int32(POOLINGS[how]), np.int32(width), np.int32(size), np.int32(parts)
        with self._calls():
            out = self._device.empty((num_texts, size), np.float32)
            sent = self._device.upload(lengths.astype(np.int32))
            self._launch("pool_texts", num_texts * parts, values, sent, *numbers, out)
        return out

    def normalize(self, values: Array, where: Bools) -> Array:
        return self._over_rows("normalize_rows", values, where)

    def sigmoid(self, values: Array, where: Bools) -> Array:
        return self._over_rows("sigmoid_rows", values, where)

    def softmax(self, values: Array, where: Bools) -> Array:
        return self._over_rows("softmax_rows", values, where)

    def dense(self, values: Array, weight: Array, bias: Array | None, activation: str) -> Array:
        """See the interface.  Raises ValueError when the weights do not fit."""
        num_out, num_in = weight.shape
        if values.shape[-1] != num_in or (bias is not None and bias.shape != (num_out,)):
            raise ValueError(f"weights [{num_out}, {num_in}] and their bias do not fit {values.shape}")
        num_rows, parts = values.size // num_in, -(-num_out // WARP)
        numbers = np.int64(num_rows), np.int32(num_in), np.int32(num_out), np.int32(parts)
        blocks = -(-num_rows // WARP) * parts
        with self._calls():
            out = self._device.empty((*values.shape[:-1], num_out), np.float32)
            kind = np.int32(ACTIVATIONS[activation])
            self._launch("dense_rows", blocks, values, weight, bias, kind, *numbers, out)
        return out

    def load(self, weight: Floats) -> Array:
        with self._calls():
            return self._device.upload(np.ascontiguousarray(weight, np.float32))

    def fetch(self, values: Array) -> Floats:
        """See the interface; values of sixteen bits are downloaded as such, and widened on the host."""
        with self._calls():
            found = self._device.download(values)
        if found.dtype == np.uint16:
            return (found.astype(np.uint32) << 16).view(np.float32)
        return found.astype(np.float32, copy=False)

    def _over_rows(self, kernel: str, values: Array, where: Bools) -> Array:
        """One warp for each row of the last axis; the values themselves when no text is to be changed."""
        if not where.any():
            return values
        size = values.shape[-1]
        num_rows = values.size // size
        numbers = np.int64(num_rows), np.int32(num_rows // len(where)), np.int32(size)
        with self._calls():
            out = self._device.empty(values.shape, np.float32)
            sent = None if where.all() else self._device.upload(where.astype(np.int32))
            self._launch(kernel, -(-num_rows * WARP // THREADS), values, sent, *numbers, out)
        return out

    def _launch(self, kernel: str, blocks: int, values: Array, *others: Any) -> None:
        kind = np.int32(TYPES[values.dtype.name])
        self._device.launch(kernel, blocks, THREADS, values, kind, *others)


def _check_lengths(lengths: Index, num_texts: int, width: int) -> None:
    """Raises IndexError when a text would end outside its row, as numpy does."""
    if len(lengths) != num_texts or int(lengths.min()) < 1 or int(lengths.max()) > width:
        raise IndexError(f"{len(lengths)} texts do not fit {num_texts} rows of {width} tokens")

"""Test cases of the pooling kernels on random values: the device's results compared with numpy's.

Cases as those of `cases.py`: a function of a device and a size, which raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops import pooling as host
from tools.lab.gpu_check.correctness.sizes import Size

Check = Callable[[Any, Size], None]

CLOSE = {"rtol": 2e-5, "atol": 4e-6}
MOST_TOKENS, MOST_NUMBERS = 257, 400
"""Limits of a text and of a row, because the sizes of steps may be thousands."""


def random_texts(size: Size, dtype: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Hidden states [sequences, tokens, numbers] and lengths; NaN after the texts' ends."""
    random = np.random.default_rng(41)
    width, numbers = min(size.context, MOST_TOKENS), min(size.vocab, MOST_NUMBERS)
    values = random.standard_normal((size.sequences, width, numbers)).astype(dtype)
    lengths = random.integers(1, width + 1, size.sequences)
    values[np.arange(width) >= lengths[:, None]] = np.nan
    return values, lengths


def pooling_cases() -> Iterator[tuple[str, Check]]:
    """Names and cases."""
    for how in host.POOLINGS:
        for dtype in ("float32", "float16"):
            yield (
                f"pool: {how}, {dtype}",
                lambda device, size, how=how, dtype=dtype: _check_pool(how, dtype, device, size),
            )
    for name in ("normalize", "sigmoid", "softmax"):
        yield name, lambda device, size, name=name: _check_rows(name, device, size)
    for activation in host.ACTIVATIONS:
        yield (
            f"dense: {activation}",
            lambda device, size, activation=activation: _check_dense(activation, device, size),
        )


def pooling_benches(device: Any, quick: bool) -> Iterator[tuple[str, Callable[[], object], int]]:
    """(name, call, bytes read) for 8,192 tokens of 384 numbers, as in a batch of MiniLM."""
    from ops.cuda.pooling import CudaPoolingOps

    ops = CudaPoolingOps(device)
    for texts in (32,) if quick else (32, 256):
        lengths, where = np.full(texts, 8192 // texts), np.ones(texts, np.bool_)
        hidden = device.zeros((texts, 8192 // texts, 384), np.float16)
        rows = device.zeros((texts, 384), np.float32)
        for how in ("mean", "last", "max"):
            num_bytes = rows.nbytes if how == "last" else hidden.nbytes
            yield (
                f"pool {how} {texts}",
                lambda hidden=hidden, lengths=lengths, how=how: ops.pool(hidden, lengths, how),
                num_bytes,
            )
        yield (
            f"normalize {texts}",
            lambda rows=rows, where=where: ops.normalize(rows, where),
            2 * rows.nbytes,
        )


def _check_pool(how: str, dtype: str, device: Any, size: Size) -> None:
    values, lengths = random_texts(size, dtype)
    ops = _ops(device)
    found = ops.fetch(ops.pool(device.upload(values), lengths, how))
    np.testing.assert_allclose(found, host.pool(values.astype(np.float32), lengths, how), **CLOSE)


def _check_rows(name: str, device: Any, size: Size) -> None:
    """Check texts, a third of them without activation, and tokens."""
    ops, texts = _ops(device), random_texts(size, "float32")[0]
    for values in (texts[:, 0].copy(), np.nan_to_num(texts)):
        for where in (np.ones(len(values), bool), np.arange(len(values)) % 3 != 0):
            found = ops.fetch(getattr(ops, name)(device.upload(values), where))
            np.testing.assert_allclose(found, getattr(host, name)(values, where), **CLOSE)


def _check_dense(activation: str, device: Any, size: Size) -> None:
    random, ops = np.random.default_rng(42), _ops(device)
    values = random_texts(size, "float32")[0][:, 0].copy()
    weight = (0.1 * random.standard_normal((size.sequences + 30, values.shape[1]))).astype(np.float32)
    bias = random.standard_normal(len(weight)).astype(np.float32)
    found = ops.fetch(ops.dense(device.upload(values), ops.load(weight), ops.load(bias), activation))
    expected = host.dense(values, weight, bias, activation)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


def _ops(device: Any) -> Any:
    from ops.cuda.pooling import CudaPoolingOps

    return CudaPoolingOps(device)

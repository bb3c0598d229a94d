"""Pooling, scores and probabilities from an encoder's output, with numpy (`PoolingOps`).

Poolings are those of sentence-transformers (`models/Pooling.py`), whose combinations have names of their own
here.  All is float32.  Entries after the end of a text may contain anything: no result depends on them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ops import activations
from ops.activations import ACTIVATIONS
from ops.contract import Bools, Floats, Index


def pool(values: Floats, lengths: Index, how: str) -> Floats:
    """[num_texts, width, size] → [num_texts, size] by one of `POOLINGS`, perhaps a view.

    lengths: int64[num_texts], the number of tokens of each text.
    """
    return POOLINGS[how](values, lengths)


def normalize(values: Floats, where: Bools) -> Floats:
    """Scale last axes to length 1 for texts with `where` (bool[num_texts]); the others are unchanged."""
    return _only(where, values, activations.unit_length)


def sigmoid(values: Floats, where: Bools) -> Floats:
    """Elementwise, for texts with `where` (bool[num_texts]); the others are unchanged."""
    return _only(where, values, activations.sigmoid)


def softmax(values: Floats, where: Bools) -> Floats:
    """Over the last axis, for texts with `where` (bool[num_texts]); the others are unchanged."""
    return _only(where, values, activations.softmax)


def dense(values: Floats, weight: Floats, bias: Floats | None, activation: str) -> Floats:
    """activation(values @ weight.T + bias): float32[..., in] → [..., out]; `activation` is one of
    `ACTIVATIONS`.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        out = values @ weight.T
        if bias is not None:
            out += bias
        return ACTIVATIONS[activation](out)


def load(weight: Floats) -> Floats:
    """The weight as C-contiguous float32."""
    return np.ascontiguousarray(weight, np.float32)


def fetch(values: Floats) -> Floats:
    """A new copy as float32."""
    return np.array(values, np.float32)


# Poolings: values [num_texts, width, size], lengths [num_texts]


def _first(values: Floats, lengths: Index) -> Floats:
    return values[:, 0]


def _last(values: Floats, lengths: Index) -> Floats:
    return values[np.arange(len(values)), lengths - 1]


def _max(values: Floats, lengths: Index) -> Floats:
    return np.stack([text[:length].max(0) for text, length in zip(values, lengths.tolist(), strict=True)])


def _mean(values: Floats, lengths: Index) -> Floats:
    return _weighed(values, lengths, lambda length: np.full(length, 1 / length, np.float32))


def _mean_sqrt_len(values: Floats, lengths: Index) -> Floats:
    """The sum divided by the square root of the number of tokens."""
    return _weighed(values, lengths, lambda length: np.full(length, length**-0.5, np.float32))


def _weighted_mean(values: Floats, lengths: Index) -> Floats:
    """Tokens have the weights 1, 2, 3 … (Muennighoff: SGPT, 2022)."""
    return _weighed(values, lengths, _rising)


def _rising(length: int) -> Floats:
    return np.arange(1, length + 1, dtype=np.float32) / np.float32(length * (length + 1) / 2)


def _weighed(values: Floats, lengths: Index, weights: Callable[[int], Floats]) -> Floats:
    """A matrix product of weights and tokens for each text, which ends at the end of the text."""
    sums = np.empty((values.shape[0], values.shape[2]), np.float32)
    for text, length, row in zip(values, lengths.tolist(), sums, strict=True):
        np.matmul(weights(length), text[:length], out=row)
    return sums


POOLINGS: dict[str, Callable[[Floats, Index], Floats]] = {
    "cls": _first,
    "mean": _mean,
    "last": _last,
    "max": _max,
    "mean_sqrt_len": _mean_sqrt_len,
    "weighted_mean": _weighted_mean,
}


def _only(where: Bools, values: Floats, change: Callable[[Floats], Floats]) -> Floats:
    """Apply `change` to the texts with `where`; entries after their ends may be anything."""
    with np.errstate(invalid="ignore", over="ignore"):
        if where.all():
            return change(values)
        if not where.any():
            return values
        changed = values.copy()
        changed[where] = change(values[where])
        return changed

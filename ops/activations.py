"""Activations and normalizations over float32 arrays.

Overflow gives the limit of the function; the caller silences numpy's warnings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from ops.contract import Floats

LEAST_LENGTH = np.float32(1e-12)
"""The smallest divisor of `unit_length`, as in torch's `normalize`."""


def unit_length(values: Floats) -> Floats:
    """x / max(|x|, 1e-12) over the last axis: float32[..., n] → float32[..., n]."""
    lengths = np.sqrt(np.vecdot(values, values))
    return cast(Floats, values / np.maximum(lengths, LEAST_LENGTH)[..., None])


def sigmoid(values: Floats) -> Floats:
    """1 / (1 + exp(-x)), elementwise: float32[...]."""
    return cast(Floats, 1 / (1 + np.exp(-values)))


def softmax(values: Floats) -> Floats:
    """exp(x - max(x)) over its sum along the last axis: float32[..., n] → float32[..., n]."""
    powers = np.exp(values - values.max(-1, keepdims=True))
    return cast(Floats, powers / powers.sum(-1, keepdims=True))


def _gelu(values: Floats) -> Floats:
    return cast(Floats, 0.5 * values * (1 + _erf(values * np.float32(0.5**0.5))))


def _erf(values: Floats) -> Floats:
    """The error function, with an error below 2e-7: Abramowitz and Stegun, 7.1.26."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(values))
    sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return cast(Floats, np.copysign(1 - sum * np.exp(-values * values), values))


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "identity": lambda values: values,
    "tanh": np.tanh,
    "relu": lambda values: np.maximum(values, 0),
    "gelu": _gelu,
    "sigmoid": sigmoid,
    "silu": lambda values: values * sigmoid(values),
}
"""Name → float32[...] → float32[...], by the names of torch's modules in lower case."""

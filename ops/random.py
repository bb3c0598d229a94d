"""Counter-based random numbers: one uniform number per row, the same on every device and in any batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
LOW, HIGH_SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox4x32(counters: NDArray[np.uint32], keys: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Philox4x32-10: uint32[n, 4] counters and uint32[n, 2] keys, lowest word first → uint32[n, 4].

    Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11; cuRAND's Philox4_32_10.
    """
    c0, c1, c2, c3 = (counters[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = (keys[:, i].copy() for i in range(2))
    for _ in range(ROUNDS):
        left, right = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1 = (right >> HIGH_SHIFT) ^ c1 ^ k0, right & LOW
        c2, c3 = (left >> HIGH_SHIFT) ^ c3 ^ k1, left & LOW
        k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def uniforms(keys: NDArray[np.uint64], counters: NDArray[np.uint64]) -> NDArray[np.float32]:
    """One number in [0, 1) per row: the upper 24 bits of Philox's first word, times 2**-24, exact in float32.

    keys: uint64[n]; counters: uint64[n] (the lower half of Philox's counter, the upper half is 0).
    """
    halves = np.zeros((len(counters), 4), np.uint32)
    halves[:, :2] = _halves(counters)
    words = philox4x32(halves, _halves(keys))[:, 0]
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _halves(numbers: NDArray[np.uint64]) -> NDArray[np.uint32]:
    return np.stack([numbers & LOW, numbers >> HIGH_SHIFT], axis=1).astype(np.uint32)

"""How fast this machine reads memory: the bound that one token's weights set.  Knows nothing of models."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BYTES_PER_CORE = 256 << 20
REPEATS = 5


def read_gb_per_s() -> float:
    """The best of some passes in which every core reads memory of its own, larger than any cache."""
    cores = len(os.sched_getaffinity(0))
    blocks = [np.ones(BYTES_PER_CORE // 4, np.float32) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as threads:
        return max(_one_pass(threads, blocks) for _ in range(REPEATS))


def _one_pass(threads: ThreadPoolExecutor, blocks: list[np.ndarray]) -> float:
    begin = time.perf_counter()
    list(threads.map(_read, blocks))
    return sum(block.nbytes for block in blocks) / (time.perf_counter() - begin) / 1e9


def _read(block: np.ndarray) -> float:
    """A dot product with itself: reads once, computes less than memory brings, holds no lock."""
    return float(np.dot(block, block))

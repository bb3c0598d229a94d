"""Measures how fast this machine reads memory, which limits the tokens/s of one stream."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BYTES_PER_CORE = 256 << 20
REPEATS = 5


def read_gb_per_s() -> float:
    """GB/s, the best of several passes in which every core reads its own memory, larger than any cache."""
    cores = len(os.sched_getaffinity(0))
    blocks = [np.ones(BYTES_PER_CORE // 4, np.float32) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as threads:
        return max(_one_pass(threads, blocks) for _ in range(REPEATS))


def _one_pass(threads: ThreadPoolExecutor, blocks: list[np.ndarray]) -> float:
    begin = time.perf_counter()
    list(threads.map(_read, blocks))
    return sum(block.nbytes for block in blocks) / (time.perf_counter() - begin) / 1e9


def _read(block: np.ndarray) -> float:
    """Read the array once: a dot product with itself, which is bound by memory and releases the GIL."""
    return float(np.dot(block, block))

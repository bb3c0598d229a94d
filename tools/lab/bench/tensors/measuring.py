"""Rounds in which the ways of asking take turns with the bare call, and what they come to."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tools.lab.bench.report import Row
from tools.lab.bench.tensors.clients import Ask
from tools.lab.bench.tensors.model import SIZES, Rows

BARE = "bare call"


def measure(
    ways: Mapping[str, Ask], bare: Ask, clients: int, seconds: float, rounds: int, note: Callable[[str], None]
) -> list[Row]:
    """Requests of one row from `clients` threads, beside the bare call of as many rows at once.

    `ratio` is the median of the rounds' ratios of the bare call's rows/s to this way's.  The first round is
    not counted.  Raises AssertionError for a way whose rows differ from the bare call's.
    """
    rows = np.random.default_rng(1).standard_normal((clients, SIZES[0]), np.float32)
    wanted = bare(rows)
    rates: dict[str, list[float]] = {name: [] for name in (BARE, *ways)}
    for turn in range(rounds + 1):
        taken = {BARE: _rate_of_batches(bare, rows, seconds)}
        for name, ask in ways.items():
            taken[name] = _rate(ask, rows, wanted, seconds)
        for name, rate in taken.items():
            if turn:
                rates[name].append(rate)
                note(f"{clients} clients, round {turn}, {name}: {rate:.0f} rows/s")
    title = f"{clients} clients" if clients > 1 else "1 client"
    return [
        {
            "workload": title,
            "system": name,
            "rows_per_s": statistics.median(measured),
            "ratio": statistics.median(map(float.__truediv__, rates[BARE], measured)),
        }
        for name, measured in rates.items()
    ]


def _rate_of_batches(call: Ask, rows: Rows, seconds: float) -> float:
    begin, count = time.perf_counter(), 0
    while (took_s := time.perf_counter() - begin) < seconds:
        call(rows)
        count += len(rows)
    return count / took_s


def _rate(ask: Ask, rows: Rows, wanted: Rows, seconds: float) -> float:
    """Rows/s of a thread for each row, which asks for it again and again."""
    until = time.perf_counter() + seconds

    def count_calls(number: int) -> int:
        mine = rows[number : number + 1]
        np.testing.assert_allclose(ask(mine), wanted[number : number + 1], rtol=1e-3, atol=1e-4)
        count = 1
        while time.perf_counter() < until:
            ask(mine)
            count += 1
        return count

    begin = time.perf_counter()
    with ThreadPoolExecutor(len(rows)) as threads:
        total = sum(threads.map(count_calls, range(len(rows))))
    return total / (time.perf_counter() - begin)

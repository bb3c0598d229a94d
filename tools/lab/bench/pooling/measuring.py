"""Measures every workload in rounds, in which the systems take turns, and computes the figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from tools.lab.bench.base.systems import SystemFailed
from tools.lab.bench.figures import percentiles_ms
from tools.lab.bench.pooling.load import Load, Timings
from tools.lab.bench.pooling.systems import ALONE, BRAID, FROM_TEXT, System
from tools.lab.bench.pooling.texts import make_texts

Row = dict[str, float | str]

ALONE_SHARE, BESIDE_MS = 1.15, 0.7
"""Aimed at: a text over HTTP takes at most this multiple of the model alone, and this many ms more."""


@dataclass(frozen=True)
class Workload:
    """`texts` in requests of `per_request`, at most `streams` in flight; `alone`: for the bare model too."""

    texts: int
    per_request: int
    streams: int
    alone: bool = False

    def load(self, seed: int) -> Load:
        return Load(make_texts(self.texts, seed), self.per_request, self.streams)


WORKLOADS = {
    "1,000 texts at once": Workload(1000, 1000, 1),
    "requests of 32, 4 in flight": Workload(1024, 32, 4),
    "single texts, 32 in flight": Workload(1000, 1, 32),
    "single texts, one by one": Workload(200, 1, 1, alone=True),
}
QUICK = {
    "200 texts at once": Workload(200, 200, 1),
    "single texts, one by one": Workload(50, 1, 1, alone=True),
}
WARM_UP = (Workload(64, 32, 1), Workload(32, 1, 8))


def measure(
    systems: Mapping[str, System],
    workloads: Mapping[str, Workload],
    rounds: int,
    note: Callable[[str], None],
) -> list[Row]:
    """A row for each workload and system.

    Every round has the same texts; a warm-up round is not counted.
    """
    for number, workload in enumerate(WARM_UP):
        for name in systems:
            _take(name, systems, workload.load(number), note)
    rows: list[Row] = []
    for number, (title, workload) in enumerate(workloads.items()):
        able = [name for name in systems if workload.alone or name not in (ALONE, FROM_TEXT)]
        load = workload.load(100 + number)
        taken: dict[str, list[Timings]] = {name: [] for name in able}
        for turn in range(rounds + 1):
            for name in able:
                timings = _take(name, systems, load, note)
                if timings is not None and turn:
                    taken[name].append(timings)
                    note(f"{title}, round {turn}, {name}: {len(load.texts) / timings.wall_s:.0f} texts/s")
        rows += _rows(
            title, load, {name: results for name, results in taken.items() if len(results) == rounds}
        )
    return rows


def _take(
    name: str, systems: Mapping[str, System], load: Load, note: Callable[[str], None]
) -> Timings | None:
    others = [system for other, system in systems.items() if other not in (name, BRAID)]
    try:
        with asleep(others):
            began_s = _processor_s(systems[name].process.pid)
            timings = systems[name].take(load)
            return timings._replace(processor_s=_processor_s(systems[name].process.pid) - began_s)
    except SystemFailed as error:
        note(f"{name}: {error}")
        return None


@contextmanager
def asleep(others: Iterable[System]) -> Iterator[None]:
    """Stop the processes of idle systems while the block runs: an idle server may poll and use cores."""
    processes = [process for other in others for process in _tree(other.process.pid)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in reversed(processes):
            with suppress(psutil.NoSuchProcess):
                process.resume()


def _processor_s(pid: int) -> float:
    times = [process.cpu_times() for process in _tree(pid)]
    return sum(each.user + each.system for each in times)


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _rows(title: str, load: Load, taken: Mapping[str, list[Timings]]) -> list[Row]:
    """Medians of the rounds; `ratio` is the median of the rounds' ratios of Braid's rate to this one's."""
    rows: list[Row] = []
    for name, rounds in taken.items():
        latencies = [percentiles_ms(result.request_s) for result in rounds]
        row: Row = {"workload": title, "system": name}
        row["texts_per_s"] = statistics.median(len(load.texts) / result.wall_s for result in rounds)
        row["p50_ms"] = statistics.median(p50_ms for p50_ms, _ in latencies)
        row["p99_ms"] = statistics.median(p99_ms for _, p99_ms in latencies)
        row["processor_ms"] = 1e3 * statistics.median(
            result.processor_s / len(load.texts) for result in rounds
        )
        if BRAID in taken:
            ours = taken[BRAID]
            row["ratio"] = statistics.median(
                its.wall_s / own.wall_s for own, its in zip(ours, rounds, strict=True)
            )
            row["cosine"] = _cosine(ours[0].first, rounds[0].first)
        if name == BRAID and ALONE in taken:
            row |= _over(rounds, taken[ALONE])
        rows.append(row)
    return rows


def _over(rounds: Iterable[Timings], alone: Iterable[Timings]) -> Row:
    """The ms by which the median request takes longer than the goal: of all rounds, of the best and worst."""
    medians = [[percentiles_ms(one.request_s)[0] for one in pair] for pair in zip(rounds, alone, strict=True)]
    over = [own - (ALONE_SHARE * bare + BESIDE_MS) for own, bare in medians]
    return {"over_ms": statistics.median(over), "least_over_ms": min(over), "most_over_ms": max(over)}


def _cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.hypot(*one) / math.hypot(*other)

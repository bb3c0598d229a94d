"""Measures every workload in rounds, in which the systems take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tools.lab.bench.bandwidth import read_gb_per_s
from tools.lab.bench.base.load import Load, Timings
from tools.lab.bench.base.systems import SystemFailed
from tools.lab.bench.entries import BRAID, Entries
from tools.lab.bench.figures import figures
from tools.lab.bench.making import make_load
from tools.lab.bench.meter import Meter
from tools.lab.bench.report import Measurement, Row, pairs, rows
from tools.lab.bench.workloads import PEOPLE, SAMPLED, Workload

WARM_UP = (
    Workload(2, 2, output_tokens=4),
    Workload(1, 1, output_tokens=4, sampling=SAMPLED),
    Workload(1, 1, output_tokens=4, schema=PEOPLE),
    Workload(2, 2, prompt_tokens=64, output_tokens=40, copying=1.0),
)
"""The first steps of an engine are slow, and so is the first use of a sampler, a grammar or draft tokens."""
WARM_UP_SEED = 1


class Measuring:
    """`own` is compared with all others, and the first of each of `pairs` with the second.

    `gb_per_s`: how fast memory was read before each workload; `compared`: a row for each workload and pair.
    """

    def __init__(
        self,
        entries: Entries,
        vocab_size: int,
        note: Callable[[str], None],
        own: str = BRAID,
        pairs: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._entries, self._vocab_size, self._note = entries, vocab_size, note
        self._own, self._pairs = own, pairs
        self._meters = {name: Meter(entry.system.process) for name, entry in entries.started.items()}
        self.gb_per_s: list[float] = []
        self.compared: list[Row] = []

    def run(self, workloads: Mapping[str, Workload], rounds: int) -> list[Row]:
        """A row for each workload and system that supports it."""
        for workload in WARM_UP:
            for name in self._able(workload):
                self._try(name, make_load(workload, WARM_UP_SEED, self._vocab_size), "warming up")
        measured = [
            row
            for number, (name, workload) in enumerate(workloads.items())
            for row in self._workload(name, workload, 100 * (number + 1), rounds)
        ]
        for meter in self._meters.values():
            meter.stop()
        return measured

    def _workload(self, title: str, workload: Workload, seed: int, rounds: int) -> list[Row]:
        self.gb_per_s.append(read_gb_per_s())
        taken: dict[str, list[Measurement]] = {name: [] for name in self._able(workload)}
        for number in range(rounds):
            load = make_load(workload, seed + number, self._vocab_size)
            for name in list(taken):
                result = self._take(name, load, title)
                if result is None:
                    del taken[name]
                    continue
                taken[name].append(result)
                self._note(f"{title}, round {number + 1}, {name}: {result.figures.tokens_per_s:.1f} tokens/s")
        started = self._entries.started
        bound = {
            name: self.gb_per_s[-1] * 1e9 / started[name].weight_bytes for name in taken if name in started
        }
        whole = {name: taken[name] for name in bound}
        self.compared += pairs(title, whole, self._pairs)
        return rows(title, whole, bound, self._own)

    def _able(self, workload: Workload) -> list[str]:
        return [name for name, one in self._entries.started.items() if workload.needs <= one.can]

    def _take(self, name: str, load: Load, title: str) -> Measurement | None:
        meter = self._meters[name]
        meter.peak_bytes()
        before_s = meter.cpu_s()
        timings = self._try(name, load, title)
        if timings is None:
            return None
        cpu_ms = (meter.cpu_s() - before_s) * 1000 / load.output_tokens
        return Measurement(figures(load, timings), cpu_ms, meter.peak_bytes())

    def _try(self, name: str, load: Load, title: str) -> Timings | None:
        """A system's result; after a failure it is left out of this workload, or of all if it died."""
        if name not in self._entries.started:
            return None
        system = self._entries.started[name].system
        try:
            return system.run(load)
        except SystemFailed as error:
            self._note(f"{title}, {name}: {error}")
            if system.process.poll() is None:
                self._entries.left_out[f"{name}, {title}"] = str(error)
            else:
                self._entries.leave_out(name, str(error))
            return None

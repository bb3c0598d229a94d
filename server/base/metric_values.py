"""Counts of all processes of the server as numbers to look up."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import psutil

from pipelines.telemetry import registry
from pipelines.telemetry.metric_names import NODE_RUNS, NODE_SECONDS, START_TIME

MODEL = "model_name"


class Labelled(NamedTuple):
    """A sample of a metric."""

    labels: dict[str, str]
    value: float


class NodeRuns(NamedTuple):
    """How often a node ran, and for how many seconds."""

    runs: int
    seconds: float


class ProcessUsage(NamedTuple):
    """What a process of the server uses now; it is a "worker" or a "host"."""

    process: str
    pid: int
    resident_bytes: int
    cpu_seconds: float


class MetricValues:
    """All counters at one instant, and what processes there are; to read them takes a few milliseconds."""

    def __init__(self) -> None:
        self._samples: defaultdict[str, list[Labelled]] = defaultdict(list)
        for family in registry.collect_counts():
            for sample in family.samples:
                self._samples[sample.name].append(Labelled(sample.labels, sample.value))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """The sums of a metric by the values of one label, of the samples that have these labels."""
        sums: defaultdict[str, float] = defaultdict(float)
        for sample in self._samples.get(name, []):
            if labels.items() <= sample.labels.items():
                sums[sample.labels.get(label, "")] += sample.value
        return sums

    def node_runs(self, model: str) -> dict[str, NodeRuns]:
        """What each node of a model's graph did in all workers since the server was started."""
        runs = self.by(f"{NODE_RUNS}_total", "node", **{MODEL: model})
        seconds = self.by(f"{NODE_SECONDS}_total", "node", **{MODEL: model})
        return {path: NodeRuns(round(count), seconds[path]) for path, count in runs.items()}

    def processes(self) -> list[ProcessUsage]:
        """What the processes of the server use now."""
        starts = self._samples.get(START_TIME, [])
        found = (_usage(sample.labels["process"], sample.labels.get("pid")) for sample in starts)
        return [part for part in found if part is not None]

    def started(self) -> float:
        """When the first process of the server was started that still runs, in Unix seconds."""
        return min((sample.value for sample in self._samples.get(START_TIME, [])), default=0.0)


def _usage(name: str, pid: str | None) -> ProcessUsage | None:
    try:
        process = psutil.Process(None if pid is None else int(pid))
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info()
            return ProcessUsage(
                process=name,
                pid=process.pid,
                resident_bytes=memory.rss,
                cpu_seconds=times.user + times.system,
            )
    except psutil.Error:
        return None

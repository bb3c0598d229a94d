"""The metrics of all processes of the server as numbers to look up."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import psutil

from pipelines.telemetry import registry
from pipelines.telemetry.metric_names import START_TIME
from server.status.reply_models import ProcessPart

MODEL = "model_name"


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float


class MetricValues:
    """The samples of all metrics at one instant; to read them takes some milliseconds."""

    def __init__(self) -> None:
        self._samples: defaultdict[str, list[Sample]] = defaultdict(list)
        for family in registry.collect():
            for sample in family.samples:
                self._samples[sample.name].append(Sample(sample.labels, sample.value))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """The sums of a metric by the values of one label, of the samples that have these labels."""
        sums: defaultdict[str, float] = defaultdict(float)
        for sample in self._samples.get(name, []):
            if labels.items() <= sample.labels.items():
                sums[sample.labels.get(label, "")] += sample.value
        return sums

    def of_model(self, name: str, model: str) -> int:
        """The sum of a counter, or of a gauge, of one model."""
        return round(self.by(name, MODEL, **{MODEL: model})[model])

    def processes(self) -> list[ProcessPart]:
        """What the processes of the server use now."""
        starts = self._samples.get(START_TIME, [])
        found = (_usage(sample.labels["process"], sample.labels.get("pid")) for sample in starts)
        return [part for part in found if part is not None]

    def started(self) -> float:
        """When the first process of the server was started that still runs, in Unix seconds."""
        return min((sample.value for sample in self._samples.get(START_TIME, [])), default=0.0)


def _usage(name: str, pid: str | None) -> ProcessPart | None:
    try:
        process = psutil.Process(None if pid is None else int(pid))
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info()
            return ProcessPart(
                process=name,
                pid=process.pid,
                resident_bytes=memory.rss,
                cpu_seconds=times.user + times.system,
            )
    except psutil.Error:
        return None

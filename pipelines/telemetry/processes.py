"""What the processes of a server use: the standard `process_` metrics, labelled by process.

A process registers once; how much it uses is read when metrics are rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import psutil

from pipelines.telemetry.metric_names import START_TIME
from pipelines.telemetry.registry import labelled

if TYPE_CHECKING:
    from prometheus_client import Metric


class Reading(NamedTuple):
    kind: str
    text: str
    read: Callable[[psutil.Process], float]


READINGS = {
    "process_virtual_memory_bytes": Reading(
        "gauge", "Virtual memory size in bytes.", lambda process: process.memory_info().vms
    ),
    "process_resident_memory_bytes": Reading(
        "gauge", "Resident memory size in bytes.", lambda process: process.memory_info().rss
    ),
    "process_cpu_seconds_total": Reading(
        "counter",
        "Total user and system CPU time spent in seconds.",
        lambda process: process.cpu_times().user + process.cpu_times().system,
    ),
    "process_open_fds": Reading(
        "gauge", "Number of open file descriptors.", lambda process: process.num_fds()
    ),
}
if hasattr(psutil, "RLIMIT_NOFILE"):  # not on macOS
    READINGS["process_max_fds"] = Reading(
        "gauge",
        "Maximum number of open file descriptors.",
        lambda process: process.rlimit(psutil.RLIMIT_NOFILE)[0],
    )


def register(process: str) -> None:
    """This process is there, as "host" or "worker", until `mark_dead`."""
    labelled(START_TIME, process).set(psutil.Process().create_time())


def readings(families: Iterable[Metric]) -> list[Metric]:
    """What the processes that are registered in `families` use now."""
    from prometheus_client import Metric

    metrics = {
        name: Metric(name.removesuffix("_total"), reading.text, reading.kind)
        for name, reading in READINGS.items()
    }
    registered = (sample for family in families if family.name == START_TIME for sample in family.samples)
    for sample in registered:
        for name, value in _usage(sample.labels.get("pid")):
            metrics[name].add_sample(name, sample.labels, value)
    return list(metrics.values())


def _usage(pid: str | None) -> Iterator[tuple[str, float]]:
    """Each reading of a process; of this one where its metrics have no pid.  Stops when the process ends."""
    try:
        process = psutil.Process(None if pid is None else int(pid))
        with process.oneshot():
            for name, reading in READINGS.items():
                yield name, reading.read(process)
    except psutil.Error:
        return

"""Makes each metric of the tables when its first value is written, and collects those of all processes.

With PROMETHEUS_MULTIPROC_DIR set, all processes of a server write to that folder.  The library is imported
when the first metric is made.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipelines.telemetry.metric_names import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry, Metric

COUNT_FILES = ("counter", "gauge_liveall")
"""How the library names the files of these kinds of metrics."""
_making = Lock()
"""Where a worker and the host are one process, both threads may make a metric at the same time."""


@cache
def labelled(name: str, *labels: str) -> Any:
    """The metric of a table with the values of its labels, in the order of the table."""
    with _making:
        metric = _metric(name)
        return metric.labels(*labels) if labels else metric


def collect() -> Iterable[Metric]:
    """All metrics, summed over the processes of this server."""
    from prometheus_client.multiprocess import MultiProcessCollector

    if not _multiprocess():
        return _registry().collect()
    families: Iterable[Metric] = MultiProcessCollector(None).collect()  # type: ignore[no-untyped-call]
    return families


def collect_counts() -> Iterable[Metric]:
    """Collects without histograms and summaries, at a fraction of the cost; gauges are those of processes."""
    from prometheus_client.multiprocess import MultiProcessCollector

    if not _multiprocess():
        return collect()
    folder = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
    files = [str(file) for kind in COUNT_FILES for file in folder.glob(f"{kind}_*.db")]
    families: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
    return families


def mark_dead(pid: int) -> None:
    """A process ended: its gauges no longer count, its totals stay."""
    if _multiprocess():
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(pid)  # type: ignore[no-untyped-call]


@cache
def _multiprocess() -> bool:
    """Whether the library shares its values; it decides when it is imported, by the environment."""
    from prometheus_client import values

    return values.ValueClass is not values.MutexValue


@cache
def _registry() -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    return CollectorRegistry()


@cache
def _metric(name: str) -> Any:
    import prometheus_client as library

    from pipelines.telemetry import metric_files

    metric_files.install()
    spec = METRICS[name]
    shared: dict[str, Any] = {"labelnames": spec.labels, "registry": _registry()}
    if spec.kind == "gauge":
        return library.Gauge(name, spec.text, **shared, multiprocess_mode=spec.mode)
    if spec.kind == "histogram":
        return library.Histogram(name, spec.text, **shared, buckets=spec.buckets)
    return (library.Summary if spec.kind == "summary" else library.Counter)(name, spec.text, **shared)

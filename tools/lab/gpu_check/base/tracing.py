"""Traces the device: every kernel of the process, from any library.

By CUPTI, through torch's profiler and its trace file, the one form of it that all versions share.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
NAME_LENGTH = 90  # characters of a kernel's name that identify it


class DeviceTrace(NamedTuple):
    """Microseconds.  `span_us` is from the first kernel's start to the last one's end.

    `kernels`: name → (launches, microseconds), the longest first.
    """

    busy_us: float
    span_us: float
    launches: int
    kernels: dict[str, tuple[int, float]]

    @property
    def idle_share(self) -> float:
        return 1 - self.busy_us / self.span_us if self.span_us else 0.0


def device_trace(run: Callable[[], None]) -> DeviceTrace:
    """Run a function and return the trace of the device."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    devices = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    with profile(activities=[ProfilerActivity.CPU, *devices]) as profiler:
        run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return read_trace(json.loads(path.read_text())["traceEvents"])


def read_trace(events: Iterable[dict[str, Any]]) -> DeviceTrace:
    """The times of a device in Chrome's trace events."""
    on_device = [event for event in events if event.get("cat") in ON_DEVICE and "dur" in event]
    times, counts = Counter[str](), Counter[str]()
    for event in on_device:
        times[event["name"][:NAME_LENGTH]] += event["dur"]
        counts[event["name"][:NAME_LENGTH]] += 1
    spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in on_device)
    kernels = {name: (counts[name], time) for name, time in times.most_common()}
    span = max(end for _, end in spans) - spans[0][0] if spans else 0.0
    return DeviceTrace(_union(spans), span, len(on_device), kernels)


def _union(spans: list[tuple[float, float]]) -> float:
    """The length of the union of the spans, which are ordered by their starts."""
    covered, until = 0.0, float("-inf")
    for start, end in spans:
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered

"""Checks the kernels on the GPU against numpy, and measures their speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness.benches import Bench, benches
from tools.lab.gpu_check.correctness.cases import CASES, Case
from tools.lab.gpu_check.correctness.sizes import SIZES

LOOK_AT = "ops/cuda/*.cu and their numpy references in ops/; run the check `sanitizer`"
REPEATS = 20


def check_kernels(setting: Setting) -> None:
    """Run every case at every size; fails with all differences."""
    from ops.cuda.device import CupyDevice

    device = CupyDevice()
    setting.say(f"compiled for {device.name}")
    wrong = run_cases(device, [size for size in SIZES if not (setting.quick and size == "large")], setting)
    if wrong:
        raise Failed("\n".join(wrong), LOOK_AT)


def run_cases(device: Any, sizes: list[str], setting: Setting) -> list[str]:
    """The problems, one line each; a failed case does not stop the next."""
    wrong: list[str] = []
    for size in sizes:
        begin, failed = time.perf_counter(), 0
        for case in CASES:
            problem = _problem(case, device, size)
            if problem:
                failed += 1
                wrong.append(f"{case.name}, {size}: {problem}")
        took = time.perf_counter() - begin
        setting.say(f"{size}: {len(CASES) - failed} of {len(CASES)} right, {took:.1f} s")
        setting.note(f"{size} right", len(CASES) - failed)
    setting.note("cases", len(CASES))
    return wrong


def _problem(case: Case, device: Any, size: str) -> str | None:
    """Why the case failed; None when it passed."""
    try:
        case.check(device, SIZES[size])
        device.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


class Timed(NamedTuple):
    """Microseconds of one call, and on the device alone; GB/s of the least device memory traffic."""

    name: str
    call_us: float
    device_us: float | None
    gb_s: float | None


def check_kernel_times(setting: Setting) -> None:
    """Measure the calls of a step at large shapes.  Fails only when a call fails."""
    from ops.cuda.device import CupyDevice

    device = CupyDevice()
    for bench in benches(device, quick=setting.quick):
        timed = measure(device, bench, traced(device))
        setting.note(timed.name, timed._asdict())
        on_device = "" if timed.device_us is None else f", {timed.device_us:.1f} µs on the device"
        speed = "" if timed.gb_s is None else f", {timed.gb_s:.0f} GB/s"
        setting.say(f"{timed.name}: {timed.call_us:.1f} µs a call{on_device}{speed}")


Trace = Callable[[Callable[[], None]], float | None]
"""Runs a function and returns the device's busy time in µs, None if it cannot be measured."""


def measure(device: Any, bench: Bench, trace: Trace, repeats: int = REPEATS) -> Timed:
    """The mean of `repeats` calls after two warm-up calls."""
    for _ in range(2):
        bench.call()
    device.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        bench.call()
    device.synchronize()
    call_us = (time.perf_counter() - begin) * 1e6 / repeats

    def again() -> None:
        for _ in range(repeats):
            bench.call()
        device.synchronize()

    busy = trace(again)
    device_us = None if busy is None else busy / repeats
    gb_s = bench.num_bytes / device_us / 1e3 if device_us and bench.num_bytes else None
    return Timed(bench.name, call_us, device_us, gb_s)


def traced(device: Any) -> Trace:
    """A trace by CUPTI, through torch's profiler, which sees every kernel of the process."""

    def trace(run: Callable[[], None]) -> float | None:
        from tools.lab.gpu_check.base.tracing import device_trace

        return device_trace(run).busy_us

    return trace

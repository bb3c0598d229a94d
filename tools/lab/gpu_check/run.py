"""Runs checks one after another, each in its own process with its own time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.lab.gpu_check.base.setting import Figures, Setting
from tools.lab.gpu_check.checks import Check

Result = dict[str, Any]
"""name, state ("pass", "fail", "absent"), seconds, why, look_at, figures."""
GRACE_S = 5
SHORTEST_S = 10  # less is not worth starting a check
NO_TIME = {"state": "absent", "why": "no time was left", "look_at": ""}
MARKS = {"pass": "ok  ", "fail": "FAIL", "absent": "--  "}


def run_checks(
    checks: Iterable[Check], setting: Setting, environ: Mapping[str, str], together_s: float
) -> list[Result]:
    """A result per check, printed when it ends; checks beyond the total time `together_s` are not started."""
    results, end = [], time.monotonic() + together_s
    for check in checks:
        left_s = int(end - time.monotonic())
        if left_s < SHORTEST_S:
            results.append(_result(check, 0.0, NO_TIME, {}))
        else:
            limited = check._replace(limit_s=min(check.limit_s, left_s))
            print(f"… {check.name}: {check.about} (at most {limited.limit_s} s)", flush=True)
            results.append(run_check(limited, setting, environ))
        print(line(results[-1]), flush=True)
    return results


def run_check(check: Check, setting: Setting, environ: Mapping[str, str]) -> Result:
    """Run one check in a new process group, which is killed at its time limit."""
    with tempfile.TemporaryDirectory(prefix="braid-gpu-check-") as scratch:
        figures, outcome = Path(scratch) / "figures.json", Path(scratch) / "outcome.json"
        own = replace(setting, figures_at=figures)
        command = [sys.executable, "-m", f"{__package__}.child", check.name, own.to_json(), str(outcome)]
        begin = time.perf_counter()
        ended = _run(command, check.limit_s, environ)
        seconds = time.perf_counter() - begin
        outcome_of_check = (
            json.loads(outcome.read_text()) if ended == 0 and outcome.exists() else _stopped(ended, check)
        )
        return _result(check, seconds, outcome_of_check, _figures(figures))


def _result(check: Check, seconds: float, outcome: Result, figures: Figures) -> Result:
    return {"name": check.name, "seconds": round(seconds, 1), **outcome, "figures": figures}


def line(result: Result) -> str:
    """The result as text: one line, then the reason and the code to inspect when it failed."""
    text = f"{MARKS[result['state']]} {result['name']} {result['seconds']:.1f} s"
    for key in ("why", "look_at"):
        if result[key]:
            text += "\n" + "\n".join(f"       {one}" for one in result[key].splitlines())
    return text


def _run(command: list[str], limit_s: float, environ: Mapping[str, str]) -> int | None:
    """The exit status; None at the time limit."""
    process = subprocess.Popen(command, env=dict(environ), start_new_session=True)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def _stopped(ended: int | None, check: Check) -> Result:
    if ended is None:
        why = f"stopped after its {check.limit_s} s; the last line above shows its progress"
    elif ended < 0:
        why = f"its process was ended by {signal.Signals(-ended).name}"
    else:
        why = f"its process ended with {ended}"
    return {"state": "fail", "why": why, "look_at": f"run it alone: --only {check.name}"}


def _figures(path: Path) -> Figures:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}

"""Runs programs, several of Python in one process, and reports what became of each."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TIMEOUT_S = 400
TOGETHER = Path(__file__).parent / "programs" / "together.py"


class Outcome(NamedTuple):
    """Of one file: whether it ended well, its own output, and the errors of all files of its process."""

    passed: bool
    output: str
    errors: str
    seconds: float


def run_together(
    python: Path, files: Iterable[Path], *arguments: str, cwd: Path | None = None
) -> dict[Path, Outcome]:
    """The outcome of each file; those behind one that ends the process have none of their own and failed."""
    files = list(files)
    run = subprocess.run(
        [python, TOGETHER, *files, "--", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=cwd,
    )
    errors, outcomes = run.stderr[-6000:], {}
    rest = run.stdout
    for file in files:
        output, passed, behind = rest.partition(f"ended {file} ")
        status, _, seconds = behind.partition("\n")[0].partition(" ")
        outcomes[file] = Outcome(status == "0", output, errors, float(seconds or 0))
        rest = behind.partition("\n")[2] if passed else rest
    return outcomes


def run_alone(command: Sequence[str | Path], variables: Mapping[str, str]) -> Outcome:
    """The outcome of one command, with `variables` in its environment."""
    begin = time.monotonic()
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **variables}
    )
    return Outcome(run.returncode == 0, run.stdout, run.stderr[-6000:], time.monotonic() - begin)

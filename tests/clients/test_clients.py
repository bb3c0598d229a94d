"""Programs that use clients of other projects, run unchanged against a real server with the demo model."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
PYTHON = Path(os.environ.get("CLIENTS_PYTHON", ROOT / ".venv-clients" / "bin" / "python"))


@pytest.mark.skipif(not PYTHON.exists(), reason="the clients are not installed: `make test` installs them")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs(program: Path, demo: str) -> None:
    run = subprocess.run(
        [PYTHON, program, demo], capture_output=True, text=True, timeout=180, cwd=program.parent
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-6000:]}"

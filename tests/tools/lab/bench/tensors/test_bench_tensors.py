"""The part of the benchmark about tensor models: a short run of all of it, and its arithmetic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tools.lab.bench.tensors.measuring import BARE, measure

ROOT = Path(__file__).resolve().parents[5]


def test_ratios_are_those_of_the_bare_call():
    notes = []
    rows = measure({"same": lambda rows: 2 * rows}, lambda rows: 2 * rows, 2, 0.01, 2, notes.append)
    assert [(row["workload"], row["system"]) for row in rows] == [
        ("2 clients", BARE),
        ("2 clients", "same"),
    ]
    assert rows[0]["ratio"] == 1
    assert rows[1]["ratio"] > 0
    assert len(notes) == 4


def test_a_way_that_gives_other_rows_is_found_out():
    with pytest.raises(AssertionError, match="Not equal"):
        measure({"wrong": lambda rows: 3 * rows}, lambda rows: 2 * rows, 1, 0.01, 1, print)


@pytest.mark.breadth
def test_a_short_run(tmp_path):
    pytest.importorskip("grpc", reason="the extra grpc is not installed")
    command = [
        sys.executable,
        "-m",
        "tools.lab.bench.tensors",
        "--clients",
        "4",
        "--seconds",
        "0.2",
        "--rounds",
        "1",
    ]
    run = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
    rows = json.loads((tmp_path / "build" / "bench-tensors.json").read_text())
    assert [row["system"] for row in rows] == [BARE, "JSON", "bytes", "gRPC"]
    assert np.isfinite([row["rows_per_s"] for row in rows]).all()

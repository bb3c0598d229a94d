"""The benchmark of adapters, on its tiny model: every round decodes, with adapters and without."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from later import missing

if missing("optimum.exporters.openvino"):
    pytest.skip("needs the extra optimum", allow_module_level=True)

from tools.lab.bench import adapters


@pytest.mark.breadth
def test_every_number_of_adapters_is_measured_beside_a_model_without_room(tmp_path, monkeypatch):
    monkeypatch.setattr(adapters, "BUILD", tmp_path)
    options = ["--model", "tiny", "--sequences", "4", "--steps", "3", "--rounds", "1"]
    done = CliRunner().invoke(adapters.main, [*options, "--adapters", "0", "--adapters", "3"])
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "bench-adapters-tiny.json").read_text())
    assert [(row["workload"], row["adapters"]) for row in rows] == [
        (room, number) for room in adapters.ROOMS for number in (0, 3)
    ]
    assert all(row[each] > 0 for row in rows for each in ("tokens_per_s", "ratio", "processor_ratio"))

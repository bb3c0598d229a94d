"""How steps with and without the CPU kernels are compared."""

from __future__ import annotations

import numpy as np
import pytest

from tools.lab.bench import linear_kernels
from tools.lab.bench.random_gguf import Shape, write


def test_a_row_has_both_times_of_each_way_and_the_ratios():
    found = {"f32": [(9.0, 8.0), (10.0, 8.0)], "two levels": [(4.5, 2.0), (5.0, 2.0)]}
    assert linear_kernels.row((2, 1), found) == "| 2 x 1 | 9.0, 8.0 | 4.5, 2.0 | 2.00, 4.00 |"


@pytest.mark.slow
def test_steps_of_a_file_take_turns(tmp_path, monkeypatch, capsys, kernel_folder):
    monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder))
    monkeypatch.setattr(linear_kernels, "SIZES", ((1, 1), (1, 4)))
    write(tmp_path / "tiny.gguf", Shape(2, 256, 512, 4, kv_heads=2, tokens=600), "Q8_0")
    monkeypatch.setattr("sys.argv", ["linear_kernels", str(tmp_path / "tiny.gguf"), "--rounds", "1"])
    linear_kernels.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines[:4]] == [f"- {way}" for way in linear_kernels.WAYS]
    assert lines[0].endswith("linear layers by openvino")
    assert "9 of 9 by braid kernels" in lines[1]
    assert "one level" in lines[3]
    assert np.all([line.count("|") == 8 for line in lines[5:]])

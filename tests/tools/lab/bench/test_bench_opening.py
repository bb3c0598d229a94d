"""The measurement of openings: a line for each, from processes of their own."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from tools.lab.bench.opening import main
from tools.lab.bench.random_gguf import SHAPES, write


@pytest.mark.breadth
def test_each_opening_has_its_figures(tmp_path, monkeypatch):
    monkeypatch.setenv("BRAID_KERNELS", "off")
    file = tmp_path / "small.gguf"
    write(file, replace(SHAPES["qwen3-0.6b"], layers=1, tokens=300), "Q4_0")
    done = CliRunner().invoke(main, [str(file), "--rounds", "1"], catch_exceptions=False)
    lines = [line.split() for line in done.output.splitlines()]
    names = ["read", "converted", "opened", "converted", "opened"]
    assert [line[0] for line in lines] == names
    peaks = [float(line[line.index("peak") + 2]) for line in lines[1:]]
    assert all(1 < peak < 10_000 for peak in peaks)
    assert peaks[1] >= peaks[0]  # of one process

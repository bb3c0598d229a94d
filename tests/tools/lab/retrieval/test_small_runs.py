"""Measurements of an index run, each of a small one."""

import pytest
from click.testing import CliRunner

from pipelines.retrieval.near_graph import has_library
from tools.lab.retrieval import near, updates


def test_updates_are_measured():
    result = CliRunner().invoke(updates.main, ["--passages", "20", "--new", "2", "--rounds", "2"])
    assert result.exit_code == 0, result.output
    kinds = [line.partition(":")[0] for line in result.output.splitlines()]
    assert kinds == ["20 passages", "2 added", "2 changed", "2 removed"]


@pytest.mark.skipif(not has_library(), reason="needs usearch (pip install usearch)")
def test_the_graph_is_measured():
    sizes = {"--rows": "300", "--size": "16", "--centres": "5", "--queries": "3"}
    result = CliRunner().invoke(near.main, [word for pair in sizes.items() for word in pair])
    assert result.exit_code == 0, result.output
    assert "of the 10 best 1.0000 are found" in result.output

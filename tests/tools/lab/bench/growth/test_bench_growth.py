"""The curves of the benchmark: which rows make which, and that they are drawn."""

import pytest

from tools.lab.bench.growth.__main__ import joined
from tools.lab.bench.growth.drawing import PANELS, draw, points
from tools.lab.bench.growth.generation import PROMPTS, STREAMS
from tools.lab.bench.growth.models import COUNTS
from tools.lab.bench.growth.models import STREAMS as SPREAD_STREAMS
from tools.lab.bench.report import Row


def row(workload, system="braid", **figures) -> Row:
    return {"workload": workload, "system": system, **figures}


ROWS = [
    row("streams 1", tokens_per_s=10.0, first_p50_ms=1.0, gap_p50_ms=2.0),
    row("streams 8", tokens_per_s=40.0, first_p50_ms=1.0, gap_p50_ms=2.0),
    row("prompt 128", tokens_per_s=9.0, first_p50_ms=100.0, gap_p50_ms=20.0),
    row("prompt 128", "peer", tokens_per_s=9.0, first_p50_ms=110.0, gap_p50_ms=21.0),
]


def test_a_curve_is_of_one_sweep_and_one_system():
    assert points(ROWS, "streams", "tokens_per_s") == {"braid": [(1, 10.0), (8, 40.0)]}
    assert points(ROWS, "prompt", "first_p50_ms") == {"braid": [(128, 100.0)], "peer": [(128, 110.0)]}


def test_points_that_are_measured_later_join_those_that_are_known():
    again = [row("streams 4", tokens_per_s=25.0), row("streams 8", tokens_per_s=44.0)]
    assert points(joined(ROWS, again), "streams", "tokens_per_s") == {
        "braid": [(1, 10.0), (4, 25.0), (8, 44.0)]
    }
    assert list(PROMPTS.only([32_768]).workloads) == [32_768]
    assert PROMPTS.only([]) == PROMPTS


@pytest.mark.parametrize("sweep", [STREAMS, PROMPTS])
def test_every_workload_of_a_sweep_fits_into_its_cache(sweep):
    for workload in sweep.workloads.values():
        assert workload.context <= sweep.max_context
        assert workload.streams <= sweep.max_sequences
        assert workload.streams * -(-workload.context // 32) <= sweep.num_blocks


def test_the_streams_are_spread_evenly_over_the_models():
    assert all(SPREAD_STREAMS % count == 0 for count in COUNTS)


def test_what_is_drawn_is_measured():
    assert {panel.sweep for panel in PANELS} == {"streams", "prompt", "models", "adapters"}


def test_the_drawing_names_its_axes(tmp_path):
    pytest.importorskip("matplotlib")
    draw(ROWS, tmp_path / "one.svg")
    assert "first token, ms" in (tmp_path / "one.svg").read_text()

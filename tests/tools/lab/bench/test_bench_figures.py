"""The benchmark's arithmetic: loads, figures, ratios."""

import json

import pytest

from tools.lab.bench.bandwidth import read_gb_per_s
from tools.lab.bench.base.load import Load, Queue, Request, Timings
from tools.lab.bench.figures import Figures, covered, figures
from tools.lab.bench.making import make_load
from tools.lab.bench.report import COLUMNS, PAIRS, Measurement, features, pairs, rows, table
from tools.lab.bench.workloads import QUICK, WORKLOADS

VOCABULARY = 151_936


def speed(tokens_per_s, prompt_tokens_per_s=1.0):
    return Measurement(Figures(tokens_per_s, prompt_tokens_per_s, 40.0, 1.0, 2.0, 0, 0, 0), 1.0, 5_000_000)


def test_figures_are_rates_and_percentiles():
    load = Load(2, [Request([1] * 10, 3), Request([2] * 10, 3)])
    got = figures(load, Timings(2.0, [0.0, 0.0], [[0.1, 0.2, 0.4], [0.3, 0.4, 0.5]]))
    assert got.tokens_per_s == 3.0
    assert got.first_p50_ms == pytest.approx(200)
    assert got.gap_p50_ms == pytest.approx(100)
    assert got.gap_p99_ms == pytest.approx(197)
    assert got.prompt_tokens_per_s == pytest.approx(20 / 0.3)
    assert got.decode_tokens_per_s == pytest.approx((2 / 0.3 + 2 / 0.2) / 2)
    assert got.tokens_per_event == 1.0


def test_tokens_that_come_at_once_are_one_event():
    got = figures(Load(1, [Request([1], 8)]), Timings(1.0, [0.0], [[0.1, 0.5]]))
    assert got.tokens_per_event == 4.0


def test_prompts_that_wait_at_the_same_time_wait_once():
    assert covered([(0, 1), (0.5, 2), (5, 6), (5.2, 5.4)]) == 3


def test_the_ratio_is_the_median_of_neighbours():
    """A machine that is twice as fast in the second round changes the speeds, not the ratio."""
    taken = {
        "braid": [speed(each) for each in (9.0, 18.0, 27.0)],
        "peer": [speed(each) for each in (10.0, 20.0, 30.0)],
    }
    own, peer = rows("8 streams", taken, {"braid": 80.0, "peer": 40.0}, "braid")
    assert peer["tokens_ratio"] == pytest.approx(0.9)
    assert (own["tokens_per_s"], own["peak_mb"], own["bound_ratio"], peer["bound_ratio"]) == (18, 5, 0.5, 1.0)
    assert "tokens_ratio" not in own


def test_a_feature_is_seen_beside_the_workload_without_it():
    made = rows("plain", {"braid": [speed(10.0)]}, {"braid": 80.0}, "braid")
    made += rows("sampled", {"braid": [speed(9.0)]}, {"braid": 80.0}, "braid")
    (seen,) = features(made, {"plain": "", "sampled": "plain"})
    assert (seen["workload"], seen["tokens_ratio"], seen["first_ratio"]) == ("sampled", 0.9, 1.0)


def test_a_system_is_seen_beside_the_one_without_its_feature():
    """The median of the rounds' ratios, and the worst of them."""
    taken = {
        "lookup": [speed(20.0), speed(19.0), speed(60.0)],
        "plain": [speed(10.0), speed(20.0), speed(20.0)],
    }
    (seen,) = pairs("copying", taken, [("lookup", "plain"), ("draft", "plain")])
    assert (seen["system"], seen["against"], seen["workload"]) == ("lookup", "plain", "copying")
    assert (seen["tokens_ratio"], seen["lowest_ratio"], seen["decode_ratio"]) == (2.0, 0.95, 1.0)
    assert table([seen], PAIRS, "title").row_count == 1


def test_the_table_has_a_row_for_each_system():
    made = rows(
        "plain", {"braid": [speed(10.0)], "peer": [speed(5.0)]}, {"braid": 80.0, "peer": 80.0}, "braid"
    )
    assert table(made, COLUMNS, "title").row_count == 2


@pytest.mark.parametrize("name", WORKLOADS)
def test_loads_of_different_rounds_share_nothing_and_survive_the_wire(name):
    first, second = (make_load(WORKLOADS[name], seed, VOCABULARY) for seed in (1, 2))
    starts = [{tuple(one.prompt[:4]) for one in load.requests} for load in (first, second)]
    assert not starts[0] & starts[1]
    assert Load.read(first.write()) == first
    assert len(first.requests) == WORKLOADS[name].requests


def test_a_workload_with_a_feature_names_one_of_the_same_size_without_it():
    for workloads in (WORKLOADS, QUICK):
        for name, workload in workloads.items():
            if workload.beside:
                other = workloads[workload.beside]
                assert (workload.streams, workload.requests, workload.output_tokens) == (
                    other.streams,
                    other.requests,
                    other.output_tokens,
                ), name
                assert workload.shared_tokens + workload.prompt_tokens == other.prompt_tokens, name


def test_a_turn_begins_with_its_conversation():
    load = make_load(WORKLOADS["conversations"], 1, VOCABULARY)
    for request in load.requests:
        if request.after is not None:
            earlier = load.requests[request.after]
            assert request.prompt[: len(earlier.prompt)] == earlier.prompt
            assert len(request.prompt) > len(earlier.prompt)
    assert sum(request.after is None for request in load.requests) == 4


def test_a_shared_prefix_is_in_every_prompt_and_the_rest_is_not():
    load = make_load(WORKLOADS["shared prefix"], 1, VOCABULARY)
    assert len({tuple(one.prompt[:1024]) for one in load.requests}) == 1
    assert len({tuple(one.prompt[1024:]) for one in load.requests}) == len(load.requests)


def test_arrivals_come_while_others_decode():
    times = [one.at_s for one in make_load(WORKLOADS["arrivals"], 1, VOCABULARY).requests]
    assert times[:8] == [0.0] * 8
    assert sorted(times) == times
    assert times[8] > 0


def test_a_queue_keeps_to_its_streams_its_times_and_its_order():
    queue = Queue(
        Load(2, [Request([1], 1), Request([2], 1, after=0), Request([3], 1, at_s=5.0), Request([4], 1)])
    )
    assert queue.take(0.0) == [0, 3]
    assert queue.take(9.0) == []
    queue.done(3)
    assert queue.next_s() == 5.0
    queue.done(0)
    assert queue.take(1.0) == [1]
    assert queue.take(5.0) == [2]
    queue.done(1)
    queue.done(2)
    assert queue.empty


def test_a_schema_outlasts_every_answer():
    for workloads in (WORKLOADS, QUICK):
        for one in workloads.values():
            if one.schema:
                smallest = json.dumps([{"name": "", "age": 0, "member": True}] * one.schema["minItems"])
                assert len(smallest) > one.output_tokens


def test_memory_is_read_at_some_speed():
    assert read_gb_per_s() > 0.1

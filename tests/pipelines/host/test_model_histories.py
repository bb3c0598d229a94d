"""The samples of the last ten minutes, by a clock that a test sets; and what phases took lately."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import get_args

import pytest

from pipelines.host import histories
from pipelines.host.histories import Histories
from pipelines.host.models.in_flight import Calls
from pipelines.host.recent_phases import RecentPhases
from pipelines.telemetry import step_profile
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.step_profile import StepProfile
from pipelines.wire.engine_view import HISTORY_SAMPLES, RECENT_S, PhaseTimes, Series


class Engine:
    """Its counts are what a test makes of them."""

    def __init__(self):
        self.now = {}
        self.profile = StepProfile({"body.model": "model"})

    def counts(self):
        return Counts(**self.now)


def instance(*engines, name="m"):
    model = SimpleNamespace(engines={str(place): engine for place, engine in enumerate(engines)})
    return SimpleNamespace(folder=SimpleNamespace(name=name), model=model)


class Scene:
    """Histories of one engine from 1000.25 s on."""

    def __init__(self):
        self.now_s = 1000.25
        self.engine = Engine()
        self.instances = [instance(self.engine)]
        self.resident_bytes = 7
        self.histories = Histories(self.instances, Calls(), lambda: self.resident_bytes, lambda: self.now_s)

    def turn(self, now_s, **counts):
        self.now_s = now_s
        self.engine.now.update(counts)
        return self.histories.turn()

    def series(self, name):
        return self.histories.of("m").series[name]


@pytest.fixture
def scene():
    return Scene()


def test_one_sample_is_taken_each_second(scene):
    assert scene.histories.of("m") is None
    assert not scene.turn(1000.9, running=3)
    assert scene.turn(1001.1, running=2, waiting=1, blocks_used=4, blocks_reusable=5, output_tokens=10)
    assert not scene.turn(1001.9, output_tokens=25)
    assert scene.turn(1002.0, running=0, preemptions=2)
    history = scene.histories.of("m")
    assert (history.end, history.period_s) == (1002.0, 1.0)
    assert {name: values for name, values in history.series.items() if any(values)} == {
        "running": [2, 0],
        "waiting": [1, 1],
        "output_tokens": [10, 15],
        "blocks_used": [4, 4],
        "blocks_reusable": [5, 5],
        "preemptions": [0, 2],
        "resident_bytes": [7, 7],
    }
    assert history.series.keys() == set(get_args(Series))


def test_a_long_step_is_spread_over_its_seconds(scene):
    scene.turn(1001.0, prompt_tokens=100)
    scene.turn(1004.6, prompt_tokens=160, running=1)
    assert scene.series("prompt_tokens") == [100, 20, 20, 20]
    assert scene.series("running") == [0, 1, 1, 1]
    assert scene.histories.of("m").end == 1004.0


def test_ten_minutes_are_held(scene):
    scene.turn(1001.0, output_tokens=5)
    for second in range(1002, 1002 + HISTORY_SAMPLES):
        scene.turn(float(second), output_tokens=second)
    assert scene.series("output_tokens") == [1002 - 5] + [1] * (HISTORY_SAMPLES - 1)
    scene.turn(10_000.0, output_tokens=10**6)
    assert len(scene.series("output_tokens")) == HISTORY_SAMPLES
    assert scene.histories.of("m").end == 10_000.0


def test_a_reloaded_model_goes_on_and_its_totals_too(scene):
    scene.turn(1001.0, output_tokens=5, prefix_hit_tokens=2)
    scene.engine = Engine()
    scene.instances.append(instance(scene.engine))
    scene.turn(1002.0, output_tokens=3)
    del scene.instances[0]
    scene.turn(1003.0, output_tokens=4, accepted_tokens=1)
    assert scene.series("output_tokens") == [5, 3, 1]
    totals = scene.histories.totals("m")
    assert (totals.output_tokens, totals.cached_tokens, totals.accepted_tokens) == (9, 2, 1)


def test_totals_are_those_of_the_last_reading(scene):
    scene.turn(1001.0, output_tokens=5)
    scene.turn(1001.5, output_tokens=8)
    held = scene.histories.read()
    assert (held["m"]["running"], scene.histories.totals("m").output_tokens) == (0, 8)
    assert scene.histories.totals("other").output_tokens == 0
    scene.turn(1002.0)
    assert scene.series("output_tokens") == [5, 3]


def test_engines_of_one_model_are_added_up_and_models_are_not(scene):
    other, elsewhere = Engine(), Engine()
    scene.instances[:] = [instance(scene.engine, other), instance(elsewhere, name="n")]
    other.now, elsewhere.now = {"waiting": 2, "prompt_tokens": 4}, {"prompt_tokens": 9}
    scene.turn(1001.0, waiting=1, prompt_tokens=1)
    assert [scene.series("waiting"), scene.series("prompt_tokens")] == [[3], [5]]
    assert scene.histories.of("n").series["prompt_tokens"] == [9]


def test_a_model_that_left_is_shown_until_its_last_sample_is(scene):
    scene.turn(1001.0, output_tokens=5, running=1)
    scene.instances.clear()
    scene.turn(1000.0 + HISTORY_SAMPLES)
    assert scene.series("output_tokens")[0] == 5
    assert scene.series("running")[-1] == 0
    scene.turn(1001.0 + HISTORY_SAMPLES)
    assert scene.histories.of("m") is None


def test_the_clock_is_that_of_the_machine_and_goes_on_when_that_is_set(monkeypatch):
    clock = histories.steady_clock()
    assert clock() == pytest.approx(time.time(), abs=5)
    before = clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= clock() < before + 60


def step(engine, monkeypatch, *laps):
    moments = iter([0.0, *laps])
    monkeypatch.setattr(step_profile, "perf_counter", lambda: next(moments))
    engine.profile.start()
    engine.profile.mark("plan")
    engine.profile.mark("body.model")
    engine.profile.end("decoding", 1, 1, 1)


def test_recent_phases_are_those_since_the_last_older_sample(monkeypatch):
    engine, phases = Engine(), RecentPhases()
    step(engine, monkeypatch, 1.0, 3.0)
    assert phases.of(engine, 0.5) == [
        PhaseTimes("decoding", "plan", "", 1, 1.0, 1, 1.0),
        PhaseTimes("decoding", "body.model", "model", 1, 2.0, 1, 2.0),
    ]
    assert sampled(phases, engine, range(1, 26)) == [(1, 1.0, 0, 0.0), (1, 2.0, 0, 0.0)]
    step(engine, monkeypatch, 0.5, 4.5)
    assert sampled(phases, engine, range(26, 31)) == [(2, 1.5, 1, 0.5), (2, 6.0, 1, 4.0)]
    assert sampled(phases, engine, range(31, 40)) == [(2, 1.5, 0, 0.0), (2, 6.0, 0, 0.0)]


def sampled(phases, engine, seconds):
    """What is shown after a sample in each of these seconds."""
    for second in seconds:
        phases.sample([engine], float(second))
    found = phases.of(engine, seconds[-1] + 0.5)
    return [(one.steps, one.seconds, one.recent_steps, one.recent_s) for one in found]


def test_samples_that_are_not_needed_are_dropped():
    engine, phases = Engine(), RecentPhases()
    for second in range(1000):
        phases.sample([engine], float(second))
    assert len(phases._samples[engine]) <= RECENT_S + 1

"""The recorder of steps, by a clock that the tests turn; and what an engine records."""

from __future__ import annotations

import pytest
from engine_rig import Rig

from pipelines.telemetry import step_profile as module
from pipelines.telemetry.step_profile import DECODING, NUM_RECENT, PROMPTS, StepProfile


@pytest.fixture
def clock(monkeypatch):
    """`clock[0]` is the time."""
    now = [100.0]
    monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def profile(clock):
    return StepProfile({"body.logits": "model"})


def run(profile, clock, kind=DECODING, **seconds):
    """One step of 8 tokens, 4 sequences and 2 output tokens."""
    profile.start()
    for phase, spent in seconds.items():
        clock[0] += spent
        profile.mark(phase.replace("__", "."))
    profile.end(kind, 8, 4, 2)


def test_nothing_ran(profile):
    assert profile.summary() == []


def test_a_phase_is_the_time_since_the_mark_before(profile, clock):
    run(profile, clock, plan=1.0, body__logits=5.0, commit=2.0)
    (steps,) = profile.summary()
    assert (steps.kind, steps.steps, steps.tokens, steps.sequences, steps.output_tokens) == (
        DECODING,
        1,
        8,
        4,
        2,
    )
    assert [(phase.name, phase.node, phase.seconds) for phase in steps.phases] == [
        ("plan", "", 1.0),
        ("body.logits", "model", 5.0),
        ("commit", "", 2.0),
    ]
    assert (steps.whole.seconds, steps.whole.max_s) == (8.0, 8.0)


def test_time_between_steps_is_nobodys(profile, clock):
    run(profile, clock, plan=1.0)
    clock[0] += 50
    run(profile, clock, plan=1.0)
    assert profile.summary()[0].whole.seconds == 2.0


def test_what_follows_a_step_is_part_of_it(profile, clock):
    run(profile, clock, plan=1.0)
    clock[0] += 0.5
    profile.after("post")
    (steps,) = profile.summary()
    assert [(phase.name, phase.seconds) for phase in steps.phases] == [("plan", 1.0), ("post", 0.5)]
    assert (steps.whole.seconds, steps.whole.max_s) == (1.5, 1.5)


def test_a_step_that_failed_leaves_nothing(profile, clock):
    profile.start()
    clock[0] += 3
    profile.mark("plan")
    profile.after("post")
    assert profile.summary() == []
    run(profile, clock, plan=1.0)
    profile.start()
    profile.after("post")
    assert profile.summary()[0].whole.seconds == 1.0


def test_kinds_are_kept_apart(profile, clock):
    run(profile, clock, plan=1.0)
    run(profile, clock, PROMPTS, plan=7.0)
    run(profile, clock, plan=3.0)
    assert {steps.kind: (steps.steps, steps.whole.seconds) for steps in profile.summary()} == {
        DECODING: (2, 4.0),
        PROMPTS: (1, 7.0),
    }


def test_percentiles_are_steps_that_ran(profile, clock):
    for hundredth in range(1, 101):
        run(profile, clock, plan=float(hundredth))
    (plan,) = profile.summary()[0].phases
    assert [round(second) for second in (plan.p50_s, plan.p99_s, plan.max_s)] == [50, 99, 100]


def test_old_steps_count_but_are_forgotten_one_by_one(profile, clock):
    run(profile, clock, plan=9.0)
    for _ in range(NUM_RECENT):
        run(profile, clock, plan=1.0)
    (steps,) = profile.summary()
    assert (steps.steps, steps.recent) == (NUM_RECENT + 1, NUM_RECENT)
    assert (steps.whole.seconds, steps.whole.max_s) == (9.0 + NUM_RECENT, 1.0)


def test_percentiles_may_be_of_the_last_seconds_alone(profile, clock):
    run(profile, clock, plan=9.0)
    run(profile, clock, plan=1.0)
    run(profile, clock, plan=2.0)
    (steps,) = profile.summary(recent_s=3.0)
    assert (steps.steps, steps.recent, steps.whole.seconds, steps.whole.max_s) == (3, 2, 12.0, 2.0)
    clock[0] += 60
    (steps,) = profile.summary(recent_s=3.0)
    assert (steps.steps, steps.recent, steps.whole.max_s) == (3, 0, 0.0)


def test_a_phase_that_recent_steps_did_not_have_keeps_its_total(profile, clock):
    run(profile, clock, plan=1.0, begin=4.0)
    for _ in range(NUM_RECENT):
        run(profile, clock, plan=1.0)
    begin = profile.summary()[0].phases[1]
    assert (begin.name, begin.seconds, begin.max_s) == ("begin", 4.0, 0.0)


def test_an_engine_tells_steps_with_prompts_from_others():
    rig = Rig(max_step_tokens=8)
    rig.submit("a", [1, 2, 3], max_tokens=4)
    rig.submit("b", [4, 5], max_tokens=4)
    rig.run()
    told = {steps.kind: steps for steps in rig.engine.profile.summary()}
    names = ["plan", "reserve", "pack", "body", "commit"]
    assert {kind: [phase.name for phase in steps.phases] for kind, steps in told.items()} == {
        PROMPTS: names,
        DECODING: names,
    }
    assert (told[PROMPTS].steps, told[PROMPTS].tokens, told[PROMPTS].output_tokens) == (1, 5, 2)
    assert (told[DECODING].steps, told[DECODING].sequences, told[DECODING].output_tokens) == (3, 6, 6)
    assert sum(steps.steps for steps in told.values()) == rig.engine.counts().steps


def test_a_step_that_raises_is_not_among_an_engines():
    rig = Rig()

    def fail(step):
        raise RuntimeError("no")

    rig.before = fail
    rig.submit("a", [1, 2, 3], max_tokens=4)
    rig.run()
    assert rig.engine.profile.summary() == []
    assert rig.engine.counts().failed_steps == 1

"""The simulation of many engines: its clock, its routes, and the line of a step's time."""

from __future__ import annotations

import json
import random
from dataclasses import astuple, replace

import pytest
from click.testing import CliRunner
from step_profiles import kind, phase, told

from pipelines.worker.engines.choice import choose
from tools.lab.simulate import __main__ as command
from tools.lab.simulate.engine import EngineSize, Run, SimulatedEngine
from tools.lab.simulate.loads import Loads
from tools.lab.simulate.routes import MAX_AHEAD, ROUTES, KeyRoute
from tools.lab.simulate.simulation import Simulation
from tools.lab.simulate.step_cost import MeasuredStep, StepCost, fitted, measured_steps
from tools.lab.simulate.trace import TraceSettings, sessions_of

COST = StepCost(0.02, 0.0005)
TRACE = TraceSettings(16, rate=4.0, turns=3, systems=4, system_tokens=96, user_tokens=12, reply_tokens=8)


def run(num_engines, route, trace=TRACE, around_s=0.0, size=EngineSize()):  # noqa: B008  # frozen
    simulation = Simulation(num_engines, size, COST, ROUTES[route](), around_s)
    return simulation.run(sessions_of(trace))


@pytest.fixture(scope="module")
def outcomes():
    return {route: run(4, route) for route in ROUTES}


def test_the_line_goes_through_what_was_measured():
    cost = fitted([MeasuredStep(1, 0.0205), MeasuredStep(64, 0.052), MeasuredStep(200, 0.12)])
    assert (cost.step_s, cost.token_s) == pytest.approx((0.02, 0.0005))
    with pytest.raises(ValueError, match="few and with many streams"):
        fitted([MeasuredStep(8, 0.02), MeasuredStep(8, 0.03)])


def test_a_profile_s_steps_have_their_share_of_the_host_s_other_work(tmp_path):
    before = told(100.0, kind("decoding", 10, phase("plan", 1.0)), steps=1.0)
    after = told(110.0, kind("decoding", 20, phase("plan", 5.0)), steps=6.0)
    after["host"]["phases"][0]["seconds"] = before["host"]["phases"][0]["seconds"] + 5.0
    file = tmp_path / "profile.json"
    file.write_text(json.dumps([before, after]))
    assert measured_steps(file) == [MeasuredStep(8.0, pytest.approx(0.5), 10)]


def test_one_session_takes_what_its_steps_cost():
    outcome = run(1, "least", TraceSettings(1, rate=1.0, turns=2, reply_tokens=8), around_s=1.0)
    for turn in outcome.turns:
        prompt_s = COST.step_s + COST.token_s * (turn.prompt_tokens - turn.cached_tokens)
        prompt_s += COST.step_s * ((turn.prompt_tokens - turn.cached_tokens - 1) // 512)
        assert turn.first_token_s == pytest.approx(1.0 + prompt_s)
        rest_s = (turn.reply_tokens - 1) * COST.seconds(1)
        assert turn.seconds == pytest.approx(turn.first_token_s + rest_s)
    first, second = outcome.turns
    assert first.cached_tokens == 0
    assert second.cached_tokens == (first.prompt_tokens + first.reply_tokens - 1) // 16 * 16


TIGHT = EngineSize(num_blocks=40, max_sequences=4, max_step_tokens=64)
"""Requests wait, and sequences are preempted."""


@pytest.mark.parametrize(
    ("size", "route"),
    [(TIGHT, "random"), *(pytest.param(EngineSize(), route, marks=pytest.mark.breadth) for route in ROUTES)],
)
def test_steps_computed_as_one_give_what_single_steps_give(monkeypatch, size, route):
    trace = replace(TRACE, sessions=12, rate=12.0, reply_tokens=24, pause_s=0.5)
    together = run(3, route, trace, size=size)
    computed = []
    monkeypatch.setattr(SimulatedEngine, "_run_length", lambda engine: computed.append(1) or 1)
    singly = run(3, route, trace, size=size)
    assert len(computed) > 300
    assert singly.busy_s == pytest.approx(together.busy_s)
    for one, other in zip(together.turns, singly.turns, strict=True):
        assert astuple(one) == pytest.approx(astuple(other))


def test_a_run_of_steps_ends_with_the_step_in_which_a_request_comes():
    whole = Run(begin_s=1.0, step_s=0.5, length=10)
    lengths = {now_s: whole.up_to(now_s).length for now_s in (1.0, 1.2, 1.5, 1.6, 5.9, 6.0)}
    assert lengths == {1.0: 1, 1.2: 1, 1.5: 1, 1.6: 2, 5.9: 10, 6.0: 10}


def test_a_key_s_engine_is_the_one_that_a_server_s_worker_chooses():
    chance, loads, route = random.Random(0), Loads(7), KeyRoute(lambda session: session)
    for number in range(2000):
        key, engine = f"key {number % 50}", chance.randrange(7)
        loads.change(engine, -1 if loads.in_flight[engine] > chance.randrange(30) else 1)
        in_flight = dict(enumerate(loads.in_flight))
        assert loads.least == min(loads.in_flight)
        assert loads.least_busy == [each for each in in_flight if in_flight[each] == loads.least]
        assert route.choose(key, loads) == choose(key, in_flight, MAX_AHEAD)


def test_every_turn_gets_its_reply_on_every_route(outcomes):
    lengths = [turn.reply_tokens for session in sessions_of(TRACE) for turn in session.turns]
    for outcome in outcomes.values():
        assert sorted(turn.reply_tokens for turn in outcome.turns) == sorted(lengths)
        assert outcome.busy_s < 4 * outcome.seconds
    assert run(4, "session") == outcomes["session"]


def test_a_session_s_engine_has_its_cache_and_a_prompt_s_engine_its_beginning(outcomes):
    shares = {route: outcome.cached_share for route, outcome in outcomes.items()}
    assert min(shares["session"], shares["prefix"]) > max(shares["random"], shares["least"]) + 0.1
    assert shares["prefix"] >= shares["session"]
    later = [turn.cached_tokens / turn.prompt_tokens for turn in outcomes["session"].turns if turn.number]
    assert min(later) > 0.5


def test_the_command_prints_a_row_for_each_number_and_route():
    options = ["--engines", "1", "--engines", "2", "--sessions", "2", "--turns", "2", "--reply-tokens", "2"]
    done = CliRunner().invoke(command.main, options)
    assert done.exit_code == 0, done.output
    assert "a step: 20.00 ms, and 0.500 ms for each token" in done.output
    assert sum(any(route in line for route in ROUTES) for line in done.output.splitlines()) == 8


@pytest.mark.breadth
def test_the_same_sessions_are_sent_to_a_server(demo):
    trace = [
        "--sessions",
        "3",
        "--turns",
        "2",
        "--system-tokens",
        "64",
        "--vocab-size",
        "300",
        "--pause-s",
        "0",
    ]
    options = ["--engines", "1", "--route", "session", "--model", "braid-demo", "--replay", demo.url, *trace]
    done = CliRunner().invoke(command.main, options)
    assert done.exit_code == 0, done.output
    (row,) = (line for line in done.output.splitlines() if "session" in line)
    assert float(row.split("│")[-3].strip().removesuffix(" %")) > 20

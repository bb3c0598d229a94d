"""Where the time goes, asked of a host by a worker."""

from __future__ import annotations

import asyncio
import math
import threading
from types import SimpleNamespace

import pytest
from patience import PATIENCE_S
from scripted_host import Folder, over, read, submit, until

from pipelines.base.errors import NotFound, Unavailable
from pipelines.host.worker_messages import LoopTimes
from pipelines.telemetry.exposition import render
from pipelines.wire import questions
from pipelines.wire.client import EngineClient
from pipelines.wire.messages import ModelStatus, Profile, Status
from pipelines.wire.socket_link import over_socket


def test_steps_that_ran_are_told_with_what_followed_them(running_host):
    async def scene(client):
        for _ in range(3):
            await read(submit(client, max_tokens=4)[1])
        return await client.profile("m")

    (steps,) = over(running_host, scene).engines["generated"]
    assert (steps.kind, steps.steps) == ("decoding", 12)
    assert [phase.name for phase in steps.phases] == ["made up", "send"]
    assert all(0 < phase.p50_s <= phase.p99_s <= phase.max_s < phase.seconds for phase in steps.phases)


def test_a_model_that_has_not_run_has_no_steps(running_host):
    async def scene(client):
        return await client.profile("m")

    told = over(running_host, scene)
    assert told.engines == {"generated": []}
    assert {"idle", "messages", "steps", "warm", "numbers"} == told.host.keys()


def test_turns_leave_no_moment_out(running_host):
    async def scene(client):
        begin = await client.profile("m")
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        await read(submit(client, max_tokens=20)[1])
        await asyncio.sleep(0.05)
        end_s = clock()
        end = await client.profile("m")
        return begin.host, end.host, end_s - begin_s

    begin, end, wall_s = over(running_host, scene)
    spent = {phase: end[phase] - begin[phase] for phase in end}
    assert sum(spent.values()) >= wall_s
    assert spent["steps"] >= 20 * 0.001
    assert spent["idle"] > 0


def test_what_a_model_computes_is_among_the_host_s_steps(running_host):
    async def scene(client):
        await read(submit(client, max_tokens=30)[1])
        return await client.profile("m")

    told = over(running_host, scene)
    (steps,) = told.engines["generated"]
    assert steps.whole.seconds == pytest.approx(sum(phase.seconds for phase in steps.phases))
    assert steps.whole.seconds <= told.host["steps"]


@pytest.fixture
def other_model(repository):
    repository.folders = [Folder("profiled")]


def test_metrics_follow_the_steps(other_model, running_host):
    labels = 'kind="decoding",model_name="profiled"'

    async def scene(client):
        await until(lambda: client.status.models and client.status.models[0].instance_id)
        await read(submit(client, max_tokens=7, model="profiled")[1])
        steps = f"braid:steps_total{{{labels}}} 7.0"
        await until(lambda: steps in render().decode())
        return render().decode(), await client.profile("profiled")

    text, told = over(running_host, scene)
    for phase in told.engines["generated"][0].phases:
        line = f'braid:step_seconds_total{{{labels},phase="{phase.name}"}} '
        (value,) = (row.removeprefix(line) for row in text.splitlines() if row.startswith(line))
        assert float(value) == pytest.approx(phase.seconds)


def test_an_unknown_model_is_not_found(running_host):
    async def scene(client):
        with pytest.raises(NotFound, match="`nope` does not exist"):
            await client.profile("nope")
        assert client.num_in_flight == 0

    over(running_host, scene)


class LongStep:
    """A step that lasts until it is let go."""

    def __init__(self, engine):
        self._engine, self._go, self._began = engine, threading.Event(), False
        engine.step = self

    def __call__(self):
        self._began = True
        self._go.wait(PATIENCE_S)
        return []

    async def begun(self):
        await until(lambda: self._began)

    def let_go(self):
        self._engine.live.clear()
        self._go.set()


def test_a_host_in_a_long_step_is_not_waited_for(running_host, repository, monkeypatch):
    monkeypatch.setattr(questions, "REPLY_S", 0.05)

    async def scene(client):
        step = LongStep(repository.engine)
        submit(client)
        await step.begun()
        with pytest.raises(Unavailable, match="long step"):
            await client.profile("m")
        step.let_go()
        monkeypatch.undo()
        await until(lambda: not repository.engine.has_work)
        return await client.profile("m")  # the late answer troubled nobody

    assert over(running_host, scene).engines == {"generated": []}


def test_a_lost_host_fails_who_asks():
    sent = []

    async def connect(client):
        return SimpleNamespace(send=sent.append, close=lambda: None)

    async def scene():
        client = EngineClient(connect)
        await client.start()
        await until(lambda: sent)
        client.received(Status(1, "ready", [ModelStatus("m", 1, 7, "ready")]))
        asked = asyncio.create_task(client.profile("m"))
        await until(lambda: len(sent) == 2)
        client.lost()
        try:
            with pytest.raises(Unavailable, match="died"):
                await asked
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))
    assert sent[1:] == [Profile(1, "m", 7, math.inf)]


def test_without_a_host_it_is_unavailable(tmp_path):
    async def scene():
        await over_socket(str(tmp_path / "nobody")).profile("m")

    with pytest.raises(Unavailable):
        asyncio.run(scene())


def test_a_moment_belongs_to_one_phase():
    loop_times = LoopTimes()
    loop_times.mark("a")
    loop_times.mark("b")
    loop_times.mark("a")
    assert list(loop_times.seconds) == ["a", "b"]
    assert all(second >= 0 for second in loop_times.seconds.values())

"""Replicas of Ray Serve that die, are updated, come and go under load: `make test-ray`."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import httpx
import psutil
import pytest
from ray_cluster import (
    NUM_REPLICAS,
    NUM_SESSIONS,
    PATIENCE_S,
    long_chat,
    named,
    scaling,
    start,
    status,
    stream,
    turn,
)
from server_process import ROOT

from server.base.replica_ids import replica_of

pytestmark = [
    pytest.mark.breadth,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray (`make test-ray` installs it)"),
]


def test_a_killed_engine_host_ends_its_own_streams_with_an_error(ray_cluster):
    ray_cluster.all_ready()

    async def scene():
        streams = await start(ray_cluster.url, 10, 400)
        victim = ray_cluster.hosts()[0]
        replica = victim.ppid()
        victim.kill()
        return replica, await turns(ray_cluster.url), await asyncio.gather(*streams)

    replica, statuses, ends = asyncio.run(scene())
    assert statuses == [200] * NUM_SESSIONS, "new requests are sent elsewhere"
    assert "broken" not in ends
    died = [end for end in ends if end != "done"]
    assert 0 < len(died) < len(ends), ends
    assert all("the engine died" in end for end in died), died
    ray_cluster.wait_for(lambda: len(ray_cluster.hosts()) == NUM_REPLICAS)
    assert replica in {host.ppid() for host in ray_cluster.hosts()}, (
        "Serve's check of health is the supervisor's turn"
    )


def test_sessions_go_elsewhere_while_an_engine_host_is_down(ray_cluster):
    """The next engine host is stopped before it has loaded its models, so that its replica has none for long."""
    ray_cluster.all_ready()
    first = ray_cluster.hosts()[0]
    replica = first.ppid()

    def successors():
        return [host for host in ray_cluster.hosts() if host.ppid() == replica and host.pid != first.pid]

    first.kill()
    ray_cluster.wait_for(successors)
    (host,) = successors()
    host.suspend()
    try:
        ray_cluster.wait_for(lambda: all_sessions_have(ray_cluster, 200))
        with ThreadPoolExecutor(NUM_SESSIONS) as pool:
            replies = pool.map(lambda session: turn(ray_cluster.url, session), range(NUM_SESSIONS))
            assert [reply.status_code for reply in replies] == [200] * NUM_SESSIONS
        assert host.status() == psutil.STATUS_STOPPED, "meanwhile the replica had no engine"
    finally:
        host.resume()
    ray_cluster.all_ready()


async def turns(url):
    """The statuses of a turn of each session, one after another."""
    return [(await asyncio.to_thread(turn, url, session)).status_code for session in range(NUM_SESSIONS)]


def whole_chat(url, session):
    """The status of a request that runs for as long as a stream, and replies at its end."""
    chat = {"json": long_chat(800, stream=False), "headers": named(session)}
    return httpx.post(f"{url}/v1/chat/completions", timeout=PATIENCE_S, verify=False, **chat).status_code


def all_sessions_have(ray_cluster, expected):
    """Whether /v2/health/ready has a status for all sessions."""
    ready = f"{ray_cluster.url}/v2/health/ready"
    return {status(ready, session) for session in range(NUM_SESSIONS)} == {expected}


@pytest.mark.parametrize("whole", [False, True], ids=["actor", "actor and engine host"])
def test_a_killed_replica_breaks_its_own_streams_and_leaves_nothing(ray_cluster, whole):
    ray_cluster.all_ready()

    async def scene():
        streams = await start(ray_cluster.url, 10, 800)
        chats = [asyncio.to_thread(whole_chat, ray_cluster.url, session) for session in range(10)]
        replies = asyncio.gather(*chats)
        running = "vllm:num_requests_running"
        await asyncio.to_thread(ray_cluster.wait_for, lambda: ray_cluster.load()[running] > 12)
        replica = ray_cluster.processes("ray::ServeReplica")[0]
        family = replica.children(recursive=True)
        for process in [replica, *(family if whole else ())]:
            process.kill()
        statuses = [*await turns(ray_cluster.url), *await replies]
        return family, statuses, await asyncio.gather(*streams)

    folders = {ray_cluster.folder(host): host.ppid() for host in ray_cluster.hosts()}
    family, statuses, ends = asyncio.run(scene())
    assert set(statuses) == {200}, "what had no reply yet is sent elsewhere"
    assert set(ends) == {"done", "broken"}, ends
    assert psutil.wait_procs(family, timeout=20)[1] == []
    ray_cluster.wait_for(lambda: len(ray_cluster.hosts()) == NUM_REPLICAS)
    ray_cluster.wait_for(lambda: len(list(ray_cluster.folders.glob("braid-*"))) == NUM_REPLICAS)
    (gone,) = set(folders) - {ray_cluster.folder(host) for host in ray_cluster.hosts()}
    assert not gone.exists()
    assert str(gone) not in Path("/proc/net/unix").read_text()


def test_a_rolling_update_fails_no_request(ray_cluster):
    ray_cluster.all_ready()
    before = {host.pid for host in ray_cluster.hosts()}

    async def scene():
        streams = await start(ray_cluster.url, 6, 600)
        update = asyncio.create_task(asyncio.to_thread(ray_cluster.deploy, {"num_cpus": 0.4}, {}, scaling()))
        statuses = []
        async with asyncio.timeout(PATIENCE_S):
            while not update.done() or before & {host.pid for host in ray_cluster.hosts()}:
                statuses.append(
                    (await asyncio.to_thread(turn, ray_cluster.url, len(statuses) % 9)).status_code
                )
        await update
        return statuses, await asyncio.gather(*streams)

    statuses, ends = asyncio.run(scene())
    assert ends == ["done"] * 6
    assert set(statuses) == {200}


def test_load_adds_a_replica_and_its_end_removes_it(ray_cluster):
    """Within bounds, and with no request that fails; what the engines recorded meanwhile."""
    ray_cluster.all_ready()
    quick = {"upscale_delay_s": 1, "downscale_delay_s": 2, "look_back_period_s": 3}
    ray_cluster.deploy({}, {}, scaling(1, NUM_REPLICAS, target_ongoing_requests=2, **quick))
    ray_cluster.wait_for(lambda: num_replicas(ray_cluster) == 1)
    ends, numbers = asyncio.run(loaded(ray_cluster))
    print("recorded:", numbers)
    assert set(ends) == {"done", 200}, ends
    assert set(numbers["target"]) == {1.0, 2.0}, "12 requests ask for six replicas"
    assert 0 < sum(numbers["running"]) <= NUM_SESSIONS
    assert sum(numbers["waiting"]) >= 0
    assert 0 < max(numbers["cache_use"]) <= 1
    assert len(numbers["waiting"]) == len(numbers["cache_use"]) == NUM_REPLICAS


def num_replicas(ray_cluster):
    """Of those that Serve wants, where each has an engine host and no other one is left; else None."""
    hosts = {each.ppid() for each in ray_cluster.hosts()}
    return len(hosts) if ray_cluster.recorded("target")[-1:] == [len(hosts)] else None


async def loaded(ray_cluster):
    """How each request ended, and what replicas recorded under load."""
    ends, under_load, going = [], True, True

    async def user(session):
        while under_load:
            ends.append(await stream(ray_cluster.url, session, 100, []))

    async def visitor():
        while going:
            ends.append((await asyncio.to_thread(turn, ray_cluster.url, len(ends) % 9)).status_code)

    def both_run():
        running = ray_cluster.recorded("running")
        return len(running) == num_replicas(ray_cluster) == NUM_REPLICAS and min(running) > 0

    users = [asyncio.create_task(user(session)) for session in range(NUM_SESSIONS)]
    await asyncio.to_thread(ray_cluster.wait_for, both_run)
    numbers = {name: ray_cluster.recorded(name) for name in ("running", "waiting", "cache_use")}
    under_load = False
    visits = asyncio.create_task(visitor())
    await asyncio.to_thread(ray_cluster.wait_for, lambda: num_replicas(ray_cluster) == 1)
    going = False
    await asyncio.gather(*users, visits)
    return ends, {**numbers, "target": ray_cluster.recorded("target")}


def test_recorded_exchanges_have_the_same_replies(ray_cluster, tmp_path, monkeypatch):
    """Those of text generation: one server's settings, and a replica with them."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "conformance")
    from comparing import Diff, diffs
    from differences import reason_for
    from exchanges import read_exchanges
    from replaying import Replay
    from serving import export, write_repository
    from settings import GROUPS, SETTINGS

    def names_replica(diff: Diff) -> bool:
        return bool(diff.path.endswith("id") and replica_of(str(diff.got)))

    setting = SETTINGS["neutral"]
    exported = export("onnxruntime", setting, tmp_path / "exported" / "model")
    models = write_repository(tmp_path / "models", exported, "onnxruntime", setting)
    before = {host.pid for host in ray_cluster.hosts()}
    env = {"BRAID_MODELS": str(models), "BRAID_ALLOW_RUNTIME_LORA_UPDATING": "1"}
    ray_cluster.deploy({}, env, scaling(1, 1))
    ray_cluster.wait_for(lambda: not before & {host.pid for host in ray_cluster.hosts()})
    ray_cluster.wait_for(lambda: status(f"{ray_cluster.url}/v2/health/ready") == 200)
    replay, unexplained, count = Replay(ray_cluster.url, PATIENCE_S), [], 0
    for group in (group for group, settings in GROUPS.items() if settings == "neutral"):
        for exchange in read_exchanges(group):
            count += 1
            differences = [diff for diff in diffs(exchange, replay.send(exchange)) if not names_replica(diff)]
            unexplained += [
                (exchange.case, diff) for diff in differences if reason_for(exchange.case, diff) is None
            ]
    replay.close()
    print(f"{count} recorded exchanges over Serve, {len(unexplained)} differ")
    assert unexplained == []
    assert count > 200

"""Pauses, and servers that sleep: what trainers ask a host for."""

from __future__ import annotations

import asyncio

import pytest
from patience import until
from scripted_host import Folder, connected, in_process, over, read, submit

from pipelines.base.errors import BraidError, Unavailable
from pipelines.host.models.residents import MemoryLimits
from pipelines.wire.client import STUCK


def test_what_runs_goes_on_after_a_pause_that_keeps_it(running_host, repository):
    async def scene(client):
        _, queue = submit(client, max_tokens=200)
        await queue.get()
        await client.pause("keep", clears_cache=True)
        num_steps, paused = repository.engine.num_steps, client.status.is_paused
        _, later = submit(client, max_tokens=2)
        await until(lambda: len(repository.engine.live) == 2)
        waited = repository.engine.num_steps == num_steps
        await client.resume()
        return paused, waited, client.status.is_paused, (await read(queue))[1], await read(later)

    paused, waited, still, first, later = over(running_host, scene)
    assert (paused, waited, still) == (True, True, False)
    assert first == {0: "length"}
    assert later == ({0: [0, 1]}, {0: "length"})
    assert repository.engine.num_resets == 1


def test_what_runs_is_ended_by_a_pause_that_aborts(running_host, repository):
    async def scene(client):
        _, queue = submit(client, max_tokens=10**9, n=2)
        await queue.get()
        await client.pause("abort", clears_cache=False)
        ended = await read(queue)
        await client.resume()
        return ended, await read(submit(client)[1])

    (_, finish), (tokens, _) = over(running_host, scene)
    assert finish == {0: "abort", 1: "abort"}
    assert tokens == {0: [0, 1, 2]}
    assert repository.engine.num_resets == 0


def test_a_pause_that_waits_begins_when_what_ran_has_ended_and_later_requests_run_after_it(
    running_host, repository
):
    async def scene(client):
        _, queue = submit(client, max_tokens=10**9, name="mine")
        await queue.get()
        pausing = asyncio.create_task(client.pause("wait", clears_cache=True))
        await asyncio.sleep(0)  # it is sent before the others
        later = [submit(client, max_tokens=2, name=name) for name in ("late", "left", "other")]
        client.abort(later[1][0])
        num_cancelled = await client.cancel("other")
        was_done, paused = pausing.done(), client.status.is_paused
        await client.cancel("mine")
        await pausing
        num_steps, now_paused = repository.engine.num_steps, client.status.is_paused
        await until(lambda: len(repository.engine.live) == 1)
        waited = repository.engine.num_steps == num_steps
        await client.resume()
        ends = [await read(update_queue) for update_queue in (later[0][1], later[2][1])]
        return (was_done, paused, now_paused, waited, num_cancelled), ends

    states, (late, other) = over(running_host, scene)
    assert states == (False, False, True, True, 1)
    assert late == ({0: [0, 1]}, {0: "length"})
    assert other[1] == {0: "abort"}


def test_a_second_pause_of_a_paused_host_is_answered(running_host):
    async def scene(client):
        _, queue = submit(client, max_tokens=10**9)
        await queue.get()
        await client.pause("keep", clears_cache=False)
        await client.pause("wait", clears_cache=False)
        await client.pause("abort", clears_cache=False)
        return await read(queue)

    assert over(running_host, scene)[1] == {0: "abort"}


def test_resume_answers_a_pause_that_waits(running_host):
    async def scene(client):
        _, queue = submit(client, max_tokens=10**9, name="mine")
        await queue.get()
        async with connected(running_host.path) as other:
            pausing = asyncio.create_task(other.pause("wait", clears_cache=False))
            await asyncio.sleep(0)
            _, later = submit(client, max_tokens=1)
            await other.resume()
            await pausing
            ended = await read(later)
            await client.cancel("mine")
            return ended, other.status.is_paused

    assert over(running_host, scene) == (({0: [0]}, {0: "length"}), False)


def test_a_worker_that_is_gone_waits_for_no_pause(running_host):
    async def scene(client):
        _, queue = submit(client, max_tokens=10**9, name="mine")
        await queue.get()
        async with connected(running_host.path) as other:
            pausing = asyncio.create_task(other.pause("wait", clears_cache=False))
            await asyncio.sleep(0)
            submit(other)
            await until(lambda: other.num_in_flight == 1)
        with pytest.raises(BraidError):
            await pausing
        _, later = submit(client, max_tokens=1)
        await client.cancel("mine")
        await client.resume()
        return await read(later)

    assert over(running_host, scene)[1] == {0: "length"}


def test_a_pause_whose_client_leaves_before_it_begins_is_undone(running_host):
    async def scene(client):
        _, queue = submit(client, max_tokens=10**9, name="mine")
        await queue.get()
        pauses = [asyncio.create_task(client.pause("wait", clears_cache=False)) for _ in range(2)]
        await asyncio.sleep(0)
        _, later = submit(client, max_tokens=2)
        await left(pauses[0])
        (view,) = (await client.inspect("m"))[0].nodes
        waited = view.waiting, [shown.state for shown in view.sequences]
        await left(pauses[1])
        ended = await read(later)
        await client.cancel("mine")
        return waited, ended, client.status.is_paused

    waited, ended, is_paused = over(running_host, scene)
    assert waited == (1, ["running", "waiting"])
    assert ended == ({0: [0, 1]}, {0: "length"})
    assert not is_paused


@pytest.mark.parametrize(("others", "goes_on"), [(0, True), (1, False)])
def test_a_pause_that_another_host_did_not_follow_is_undone_but_for_others(running_host, others, goes_on):
    """A client leaves while one of several engines is not paused yet."""

    async def scene(client):
        async def asked_for_by_all():
            async with client.pausing("keep", clears_cache=False):
                for _ in range(others):
                    await client.pause("wait", clears_cache=False)
                raise Unavailable("gone")

        with pytest.raises(Unavailable):
            await asked_for_by_all()
        await until(lambda: client.status.is_paused != goes_on)
        await client.resume()

    over(running_host, scene)


async def left(pausing):
    pausing.cancel()
    await asyncio.gather(pausing, return_exceptions=True)


def test_what_waits_for_a_resume_fails_when_the_server_ends(running_host, repository):
    async def scene(client):
        queues = [submit(client, max_tokens=10**9)[1]]
        await queues[0].get()
        await client.pause("keep", clears_cache=False)
        queues.append(submit(client)[1])
        client.end("over")
        with pytest.raises(Unavailable, match="was paused"):
            submit(client)
        with pytest.raises(Unavailable, match="over"):
            await client.pause("keep", clears_cache=False)
        await until(lambda: not repository.engine.live)
        return [str(ending) for ending in await asyncio.gather(*map(read, queues), return_exceptions=True)]

    assert over(running_host, scene) == [STUCK, STUCK]


def test_what_runs_goes_on_when_the_server_ends_and_a_pause_that_waits_for_it_fails(running_host):
    async def scene(client):
        _, queue = submit(client, max_tokens=10**9, name="mine")
        await queue.get()
        pausing = asyncio.create_task(client.pause("wait", clears_cache=False))
        await asyncio.sleep(0)
        _, later = submit(client, max_tokens=2)
        client.end("over")
        with pytest.raises(Unavailable, match="over"):
            await pausing
        ended = await read(later)
        await client.cancel("mine")
        return ended

    assert over(running_host, scene) == ({0: [0, 1]}, {0: "length"})


def test_a_server_that_sleeps_loads_for_no_request(tmp_path, repository):
    repository.folders = [Folder("a"), Folder("b")]

    async def scene(client):
        async with client.wanted("a"):
            pass
        loaded = await client.sleep()
        for name in loaded:
            await client.unload(name)
        sleeping = client.status.is_sleeping
        with pytest.raises(BraidError, match="unloaded"):
            async with client.wanted("b"):
                pass
        again, woken = await client.sleep(), await client.wake_up()
        async with client.wanted("b"):
            pass
        return loaded, sleeping, again, woken, client.status.is_sleeping

    limits = MemoryLimits(on_request=True)
    assert in_process(scene, repository.source(tmp_path), limits) == (["a"], True, [], ["a"], False)


def test_what_was_not_loaded_after_it_slept_is_named_again(tmp_path, repository):
    repository.folders = [Folder("a"), Folder("b")]

    async def scene(client):
        for name in await client.sleep():
            await client.unload(name)
        first = await client.wake_up()
        async with client.wanted("a", by_hand=True):
            pass
        second = await client.wake_up()
        await client.unload("b")
        return first, second, await client.wake_up()

    assert in_process(scene, repository.source(tmp_path)) == (["a", "b"], ["b"], [])

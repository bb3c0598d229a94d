"""A host's models: loaded, replaced, failed and removed while calls go on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from patience import PATIENCE_S
from scripted_host import Folder, Model, connected, over, read, submit, until

from pipelines.base.errors import NotFound, Unavailable
from pipelines.host.host import Host
from pipelines.host.models.instances import ModelInstances
from pipelines.repository.snapshot import Snapshot
from pipelines.wire.socket_link import over_socket
from pipelines.wire.socket_listener import SocketListener

SNAPSHOT = Snapshot(Path("nowhere"), "")


def entry(client):
    return client.status.models[0]


def test_ready_model_tells_its_sizes(running_host):
    async def scene(client):
        return client.status

    status = over(running_host, scene)
    assert status.state == "ready"
    model = status.models[0]
    assert (model.name, model.state, model.max_context, model.cache_tokens) == ("m", "ready", 64, 128)


def test_model_that_still_loads_may_be_tried_again_later(running_host, repository):
    async def scene(client):
        repository.hold = threading.Event()
        repository.folders = [*repository.folders, Folder("n")]
        running_host.host.rescan()
        await until(lambda: len(client.status.models) == 2)
        assert client.status.models[1].state == "loading"
        with pytest.raises(Unavailable, match="still loading"):
            await read(submit(client, model="n", instance_id=1)[1])
        return await read(submit(client)[1])

    assert over(running_host, scene)[1] == {0: "length"}


def test_status_is_starting_until_the_first_scan_is_loaded(tmp_path, repository):
    async def scene():
        repository.hold = threading.Event()
        host = Host(repository.source(tmp_path), SocketListener(tmp_path / "s"))
        thread = threading.Thread(target=host.run)
        thread.start()
        client = over_socket(str(tmp_path / "s"))
        await client.start()
        await until(lambda: client.status is not None and client.status.models != [])
        before = client.status.state
        repository.hold.set()
        await until(lambda: client.status.state == "ready")
        await client.close()
        host.drain()
        await asyncio.to_thread(thread.join, PATIENCE_S)
        return before

    assert asyncio.run(scene()) == "starting"


def test_new_version_takes_new_calls_and_the_old_one_ends_its_own(running_host, repository):
    async def scene(client):
        first_load = entry(client).instance_id
        _, running = submit(client, max_tokens=200)
        await running.get()
        repository.folders = [Folder("m", 2, fingerprint="b")]
        running_host.host.rescan()
        await until(lambda: entry(client).version == 2)
        assert entry(client).instance_id > first_load
        assert not repository.built[0].closed
        _, finish = await read(running)
        await until(lambda: repository.built[0].closed)
        await read(submit(client)[1])
        return finish

    assert over(running_host, scene) == {0: "length"}
    assert repository.built[1].engines["generated"].num_steps >= 3


def test_unchanged_model_is_not_loaded_again(running_host, repository):
    async def scene(client):
        repository.folders = [*repository.folders, Folder("n")]
        running_host.host.rescan()
        await until(lambda: len(client.status.models) == 2 and client.status.models[1].state == "ready")

    over(running_host, scene)
    assert len(repository.built) == 2


def test_failed_load_leaves_the_old_version_serving_and_says_why(running_host, repository):
    class BuildError(Exception):
        problems = ["graph.yaml:3: no such node", "graph.yaml:9: no such file"]

    async def scene(client):
        repository.folders = [Folder("m", 2, fingerprint="b")]
        repository.broken["m"] = BuildError()
        running_host.host.rescan()
        await until(lambda: bool(entry(client).problems))
        await read(submit(client)[1])
        return entry(client)

    model = over(running_host, scene)
    assert (model.state, model.version, model.problems) == ("ready", 1, BuildError.problems)


def test_model_that_never_loaded_is_failed_and_tried_again_at_the_next_scan(running_host, repository):
    async def scene(client):
        repository.folders = [Folder("a"), *repository.folders]
        repository.broken["a"] = RuntimeError("no memory")
        running_host.host.rescan()
        await until(lambda: entry(client).state == "failed")
        assert entry(client).problems == ["RuntimeError: no memory"]
        repository.broken.clear()
        running_host.host.rescan()
        await until(lambda: entry(client).state == "ready")
        return entry(client).problems

    assert over(running_host, scene) == []


def test_removed_folder_is_unloaded(running_host, repository):
    async def scene(client):
        load = entry(client).instance_id
        repository.folders = []
        running_host.host.rescan()
        await until(lambda: client.status.models == [])
        assert repository.built[0].closed
        with pytest.raises(NotFound):
            await read(submit(client, instance_id=load)[1])

    over(running_host, scene)


def test_removed_model_is_unloading_while_a_call_runs(running_host, repository):
    async def scene(client):
        _, update_queue = submit(client, max_tokens=100)
        await update_queue.get()
        repository.folders = []
        running_host.host.rescan()
        await until(lambda: entry(client).state == "unloading")
        return await read(update_queue)

    assert over(running_host, scene)[1] == {0: "length"}


def test_scan_that_fails_leaves_what_serves(running_host, repository):
    async def scene(client):
        repository.folders = None
        running_host.host.rescan()
        await asyncio.sleep(0.05)
        return await read(submit(client)[1])

    assert over(running_host, scene)[1] == {0: "length"}


def test_banner_is_announced_once_when_a_worker_is_there(running_host, repository):
    async def scene(client):
        async with connected(running_host.path):
            running_host.host.rescan()
            await asyncio.sleep(0.05)

    over(running_host, scene)
    assert [status.state for status in running_host.announced] == ["ready"]


def test_drain_finishes_what_runs_and_refuses_what_is_new(running_host, repository):
    async def scene(client):
        _, update_queue = submit(client, max_tokens=100)
        await update_queue.get()
        running_host.host.drain()
        await until(lambda: client.status is not None and client.status.state == "draining")
        with pytest.raises(Unavailable, match="shutting down"):
            submit(client)
        result = await read(update_queue)
        await until(lambda: client.status is None)
        return result

    assert over(running_host, scene)[1] == {0: "length"}
    running_host.thread.join(PATIENCE_S)
    assert repository.built[0].closed


def test_client_finds_a_host_that_comes_later(tmp_path, repository):
    async def scene():
        client = over_socket(str(tmp_path / "late.sock"))
        seen = []
        client.on_status(seen.append)
        await client.start()
        for _ in range(2):
            host = Host(repository.source(tmp_path), SocketListener(tmp_path / "late.sock"))
            thread = threading.Thread(target=host.run)
            thread.start()
            await until(lambda: client.status is not None and client.status.state == "ready")
            await read(submit(client)[1])
            host.drain()
            await until(lambda: client.status is None)
            await asyncio.to_thread(thread.join, PATIENCE_S)
        await client.close()
        return [getattr(status, "state", None) for status in seen]

    states = asyncio.run(scene())
    assert states.count(None) == 2


def test_loads_of_a_later_host_have_later_numbers(tmp_path):
    first = ModelInstances().loaded(Folder("m"), Model({}), SNAPSHOT, {})
    threading.Event().wait(0.002)
    assert ModelInstances().loaded(Folder("m"), Model({}), SNAPSHOT, {}).instance_id > first.instance_id


def test_a_load_shows_how_far_it_is_while_that_is_known():
    instances = ModelInstances()
    instances.progressed("n", "converting n.gguf", 0.1)  # of a model that is not loaded now
    instances.loading(Folder("n"))
    shown = []
    for share in (None, 0.5, 1.0):
        if share is not None:
            instances.progressed("n", "converting n.gguf", share)
        (status,) = instances.statuses()
        shown.append((status.state, status.doing, status.share))
    assert shown == [
        ("loading", "", None),
        ("loading", "converting n.gguf", 0.5),
        ("loading", "", None),
    ]


def test_a_folder_that_never_loaded_is_forgotten_with_its_removal(running_host, repository):
    async def scene(client):
        repository.folders = [Folder("a"), *repository.folders]
        repository.broken["a"] = RuntimeError("no memory")
        running_host.host.rescan()
        await until(lambda: entry(client).state == "failed")
        repository.folders = [Folder("m")]
        running_host.host.rescan()
        await until(lambda: entry(client).name == "m")
        return [model.name for model in client.status.models]

    assert over(running_host, scene) == ["m"]


def test_a_model_that_is_broken_and_restored_has_no_problems(running_host, repository):
    async def scene(client):
        repository.folders, repository.broken["m"] = [Folder("m", fingerprint="b")], RuntimeError("bad")
        running_host.host.rescan()
        await until(lambda: bool(entry(client).problems))
        repository.folders = [Folder("m")]
        running_host.host.rescan()
        await until(lambda: not entry(client).problems)
        return entry(client).state, len(repository.built)

    assert over(running_host, scene) == ("ready", 1)


def test_a_loaded_model_is_not_removed_by_files_that_are_missing(running_host, repository, tmp_path):
    async def scene(client):
        (tmp_path / "n" / "1").mkdir(parents=True)
        repository.folders = [Folder("n", path=tmp_path / "n" / "1")]
        running_host.host.rescan()
        await until(lambda: [model.name for model in client.status.models] == ["n"])
        await until(lambda: entry(client).state == "ready")
        repository.folders = []
        running_host.host.rescan()
        await until(lambda: bool(entry(client).problems))
        assert (await read(submit(client, model="n")[1]))[1] == {0: "length"}
        (tmp_path / "n" / "1").rmdir()
        (tmp_path / "n").rmdir()
        running_host.host.rescan()
        await until(lambda: client.status.models == [])

    over(running_host, scene)


def test_an_instance_that_a_worker_uses_stays_until_the_worker_has_its_successor(running_host, repository):
    async def scene(client):
        assert client.report_use([entry(client).instance_id])
        await until(lambda: any(running_host.host._instances._in_use.values()))
        repository.folders = [Folder("m", 2, fingerprint="b")]
        running_host.host.rescan()
        await until(lambda: entry(client).version == 2)
        (replaced,) = entry(client).replaced
        await asyncio.sleep(0.05)
        assert not repository.built[0].closed
        assert (await read(submit(client, instance_id=replaced)[1]))[1] == {0: "length"}
        client.report_use([entry(client).instance_id])
        await until(lambda: repository.built[0].closed)
        await until(lambda: entry(client).replaced == [])

    over(running_host, scene)


def test_an_instance_that_a_dead_worker_used_is_closed(running_host, repository):
    async def scene(client):
        async with connected(running_host.path) as other:
            other.report_use([entry(client).instance_id])
            await until(lambda: any(running_host.host._instances._in_use.values()))
            repository.folders = [Folder("m", 2, fingerprint="b")]
            running_host.host.rescan()
            await until(lambda: entry(client).version == 2)
            await asyncio.sleep(0.05)
            assert not repository.built[0].closed
        await until(lambda: repository.built[0].closed)

    over(running_host, scene)


def test_a_reload_is_answered_when_every_worker_has_built_what_changed(running_host, repository):
    async def scene(client):
        async with connected(running_host.path) as other:
            for worker in (client, other):
                worker.report_use([entry(client).instance_id], client.status.number)
            repository.folders = [Folder("m", 2, fingerprint="b")]
            reloading = asyncio.create_task(client.rescan())
            await until(lambda: entry(other).version == 2 and entry(client).version == 2)
            client.report_use([entry(client).instance_id], client.status.number)
            await asyncio.sleep(0.1)
            assert not reloading.done()
            other.report_use([entry(client).instance_id], client.status.number)
            assert await asyncio.wait_for(reloading, PATIENCE_S)

    over(running_host, scene)

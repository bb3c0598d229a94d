"""A host whose models come and go: what workers ask for over the wire, and random steps with calls."""

from __future__ import annotations

import asyncio
import random

import pytest
from scripted_host import (
    Folder,
    Model,
    Repository,
    ScriptedEngine,
    in_process,
    read,
    submit,
    until,
)

from pipelines.base.errors import BraidError, Unavailable
from pipelines.host.models.residents import GB, MemoryLimits

GRAPH = "task: chat\nnodes:\n  generated: {type: scheduler, cache: {memory_gb: 1}}\n"
NAMES = [*"abcd"]


class Measured(Repository):
    """Four models of 1 GiB.  `most_bytes` is what they took together at most.

    While `is_written`, each look finds the first of them changed.
    """

    def __init__(self):
        super().__init__([Folder(name, graph=GRAPH) for name in NAMES])
        self.most_bytes = 0
        self.num_building = {}
        self.num_looks = 0
        self.is_written = False

    def scan(self, folder):
        self.num_looks += 1
        if self.is_written:
            self.folders[0] = Folder("a", fingerprint=f"part {self.num_looks}", graph=GRAPH)
        return super().scan(folder)

    async def looked(self, count):
        """Return when so many more looks were begun."""
        last = self.num_looks + count
        await until(lambda: self.num_looks >= last)

    def build(self, folder, sources):
        assert not self.num_building.get(folder.name), "two loads of one model"
        self.num_building[folder.name] = 1
        if folder.name in self.broken:
            self.num_building[folder.name] = 0
            raise self.broken[folder.name]
        model = Model({"generated": ScriptedEngine(self.step_s)}, cache_bytes=GB)
        self.built.append(model)
        self.most_bytes = max(
            self.most_bytes, sum(GB for built_model in self.built if not built_model.closed)
        )
        self.num_building[folder.name] = 0
        return model


@pytest.fixture
def repository():
    return Measured()


def served(repository, tmp_path, scene, **limits):
    return in_process(scene, repository.source(tmp_path), MemoryLimits(**limits))


def states(client):
    return {model.name: model.state for model in client.status.models}


async def call(client, name, **more):
    """A call to a model as a worker makes it: the model is wanted until the call has begun."""
    async with client.wanted(name):
        entry = next(model for model in client.status.models if model.name == name)
        _, update_queue = submit(client, model=name, instance_id=entry.instance_id, **more)
    return await read(update_queue)


def test_a_request_loads_a_model_and_the_one_used_least_recently_leaves(repository, tmp_path):
    async def scene(client):
        assert states(client) == {"a": "ready", "b": "ready", "c": "unloaded", "d": "unloaded"}
        assert all(model.on_request and model.task == "chat" for model in client.status.models[2:])
        await call(client, "a")
        replies = await asyncio.gather(*[call(client, "c") for _ in range(20)])
        await until(lambda: states(client)["b"] == "unloaded")
        return replies

    replies = served(repository, tmp_path, scene, max_bytes=2 * GB)
    assert all(finish == {0: "length"} for _, finish in replies)
    assert len(repository.built) == 3
    assert repository.most_bytes == 2 * GB


def test_twenty_models_are_listed_without_loading_any_and_each_is_loaded_by_its_first_request(tmp_path):
    names = [f"m{number:02}" for number in range(20)]
    repository = Measured()
    repository.folders = [Folder(name, graph=GRAPH) for name in names]

    async def scene(client):
        assert states(client) == dict.fromkeys(names, "unloaded")
        assert all(model.on_request and model.task == "chat" for model in client.status.models)
        built = []
        for name in reversed(names):
            _, finish = await call(client, name)
            assert finish == {0: "length"}
            built.append(len(repository.built))
        return built

    assert served(repository, tmp_path, scene, on_request=True) == [*range(1, 21)]
    assert repository.num_looks == 1


def test_an_explicit_unload_ends_with_the_last_call_and_lasts_until_a_load(repository, tmp_path):
    async def scene(client):
        entry = client.status.models[0]
        _, running = submit(client, max_tokens=50, instance_id=entry.instance_id, model="a")
        await running.get()
        unloading = asyncio.create_task(client.unload("a"))
        await until(lambda: states(client)["a"] == "unloading")
        assert (await read(running))[1] == {0: "length"}
        await unloading
        assert states(client)["a"] == "unloaded"
        assert repository.built[0].closed
        with pytest.raises(BraidError, match="is unloaded"):
            await call(client, "a")
        async with client.wanted("a", by_hand=True):
            assert states(client)["a"] == "ready"
        return await call(client, "a")

    assert served(repository, tmp_path, scene)[1] == {0: "length"}


def test_a_load_that_fails_says_why_and_when_to_come_again(repository, tmp_path):
    async def scene(client):
        await client.unload("a")
        repository.broken["a"] = RuntimeError("no such file")
        with pytest.raises(Unavailable, match="no such file"):
            async with client.wanted("a", by_hand=True):
                pass
        with pytest.raises(Unavailable, match="no such file") as refused:
            await call(client, "a")
        assert refused.value.retry_after_s in (29, 30)
        with pytest.raises(BraidError, match="does not exist"):
            await client.unload("nope")

    served(repository, tmp_path, scene)


def test_a_rescan_says_whether_anything_changed(repository, tmp_path):
    async def scene(client):
        first = await client.rescan()
        repository.folders[0] = Folder("a", 2, fingerprint="b", graph=GRAPH)
        second = await client.rescan()
        assert client.status.models[0].version == 2
        repository.folders[0] = Folder("a", 2, fingerprint="c", graph=GRAPH)
        repository.broken["a"] = RuntimeError("half a file")
        with pytest.raises(Unavailable, match="a: RuntimeError: half a file"):
            await client.rescan()
        return first, second

    assert served(repository, tmp_path, scene) == (False, True)


def test_models_without_calls_leave_when_their_time_is_over(repository, tmp_path):
    async def scene(client):
        client.keep("a", 1000.0)
        await until(lambda: set(states(client).values()) == {"ready", "unloaded"})
        await until(lambda: [*states(client).values()] == ["ready", *["unloaded"] * 3])
        return await call(client, "b")

    assert served(repository, tmp_path, scene, idle_s=1.0)[1] == {0: "length"}


def test_a_worker_that_hangs_up_leaves_the_queue(repository, tmp_path):
    async def scene(client):
        async with client.wanted("a"), client.wanted("b"):
            waiting = asyncio.create_task(call(client, "c"))
            await asyncio.sleep(0.1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0.2)
        return states(client)["c"]

    assert served(repository, tmp_path, scene, max_bytes=2 * GB) == "unloaded"


def test_a_polled_folder_is_taken_when_two_looks_find_it_equal(repository, tmp_path):
    async def scene(client):
        repository.is_written = True
        await repository.looked(6)
        loads_while_written = len(repository.built)
        repository.is_written = False
        await until(lambda: len(repository.built) > loads_while_written)
        repository.broken["b"] = RuntimeError("half a file")
        repository.folders[1] = Folder("b", fingerprint="bad", graph=GRAPH)
        await until(lambda: bool(client.status.models[1].problems))
        await repository.looked(5)  # what failed is not tried again while it does not change
        return loads_while_written, len(repository.built)

    written, settled = in_process(scene, repository.source(tmp_path, poll_s=0.02))
    assert (written, settled) == (len(NAMES), len(NAMES) + 1)


@pytest.mark.parametrize("seed", range(2))
def test_random_steps_lose_no_call_and_never_exceed_the_bound(repository, tmp_path, seed):
    """Calls, unloads, loads and edits at once; every call ends with its tokens or with an error that says
    why."""
    draw = random.Random(seed)
    repository.step_s = 0.0005

    async def client_of_models(client, results):
        for _ in range(20):
            name, step = draw.choice(NAMES), draw.random()
            try:
                if step < 0.05:
                    await client.unload(name)
                elif step < 0.15:
                    async with client.wanted(name, by_hand=True):
                        pass
                elif step < 0.2:
                    place = NAMES.index(name)
                    repository.folders[place] = Folder(name, fingerprint=str(draw.random()), graph=GRAPH)
                    await client.rescan()
                else:
                    _, finish = await call(client, name, max_tokens=draw.choice([1, 5, 30]))
                    results.append(finish)
            except BraidError as error:
                results.append(str(error))
            await asyncio.sleep(draw.random() / 100)

    async def scene(client):
        results = []
        await asyncio.wait_for(asyncio.gather(*[client_of_models(client, results) for _ in range(4)]), 60)
        return results

    results = served(repository, tmp_path, scene, max_bytes=2 * GB, idle_s=0.2, load_timeout_s=20.0)
    lost = [result for result in results if result != {0: "length"} and "is unloaded" not in result]
    assert [result for result in lost if "was loaded again" not in result] == []
    assert results.count({0: "length"}) > 20
    assert repository.most_bytes <= 2 * GB

"""The same client with its host as a thread of this process."""

from __future__ import annotations

import asyncio

import pytest
from scripted_host import Model, ScriptedEngine, in_process, read, submit, until

from pipelines.base.errors import Unavailable
from pipelines.host.models.loader import ModelSource
from pipelines.inference.contracts.device_errors import DeviceLost


def inside(tmp_path, repository, scene):
    return in_process(scene, repository.source(tmp_path))


def test_tokens_come_as_over_a_socket(tmp_path, repository):
    async def scene(client):
        return await asyncio.gather(*[read(submit(client, n=2)[1]) for _ in range(5)])

    expected = ({0: [0, 1, 2], 1: [0, 1, 2]}, {0: "length", 1: "length"})
    assert inside(tmp_path, repository, scene) == [expected] * 5


def test_closing_aborts_what_runs_and_closes_the_models(tmp_path, repository):
    boxes = []

    async def scene(client):
        boxes.append(submit(client, max_tokens=10**9)[1])
        await boxes[0].get()

    inside(tmp_path, repository, scene)
    assert repository.built[0].closed
    with pytest.raises(Unavailable):
        asyncio.run(read(boxes[0]))


def test_abort_frees_the_request(tmp_path, repository):
    async def scene(client):
        request_id, update_queue = submit(client, max_tokens=10**9)
        await update_queue.get()
        client.abort(request_id)
        await until(lambda: not repository.engine.live)

    inside(tmp_path, repository, scene)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lost_device_ends_the_host_and_its_requests_get_an_error(tmp_path, repository):
    async def scene(client):
        _, update_queue = submit(client, max_tokens=10**9)
        await update_queue.get()
        repository.engine.raises = DeviceLost("an illegal memory access was encountered")
        with pytest.raises(Unavailable):
            await read(update_queue)

    inside(tmp_path, repository, scene)


def test_a_device_lost_while_a_model_loads_is_that_models_problem(tmp_path, repository):
    repository.broken["m"] = DeviceLost("CUDA error 700")

    async def scene(client):
        (model,) = client.status.models
        assert model.state == "failed"
        assert "CUDA error 700" in model.problems[0]

    inside(tmp_path, repository, scene)


def test_a_model_that_cannot_be_warmed_serves(tmp_path, repository, monkeypatch):
    asked = []

    def fail(model):
        asked.append(model)
        raise RuntimeError("no memory")

    monkeypatch.setattr(Model, "warm", fail)

    async def scene(client):
        await until(lambda: asked)
        assert (await read(submit(client)[1]))[1] == {0: "length"}
        assert len(asked) == 1

    inside(tmp_path, repository, scene)


def test_a_model_is_warmed_while_nothing_runs_until_there_is_no_more(tmp_path, repository):
    def build(folder, folders):
        model = repository.build(folder, folders)
        model.cold = 5
        return model

    async def scene(client):
        await until(lambda: repository.built[0].cold == 0)
        assert (await read(submit(client)[1]))[1] == {0: "length"}
        await asyncio.sleep(0.01)
        assert repository.built[0].cold == 0

    in_process(scene, ModelSource(tmp_path, repository.scan, build))


def test_nothing_is_warmed_while_a_request_waits_for_an_engine_with_its_own_thread(tmp_path, repository):
    class Elsewhere(ScriptedEngine):
        """Computes nothing here before it is told to."""

        here = False

        @property
        def has_work(self):
            return self.here and bool(self.live)

    def build(folder, folders):
        model = repository.build(folder, folders)
        model.engines["generated"], model.cold = Elsewhere(), 10**9
        return model

    async def scene(client):
        model = repository.built[0]
        await until(lambda: model.cold < 10**9)
        _, update_queue = submit(client)
        await until(lambda: repository.engine.live)
        cold = model.cold
        await asyncio.sleep(0.02)
        assert model.cold == cold
        repository.engine.here = True
        assert (await read(update_queue))[1] == {0: "length"}
        await until(lambda: model.cold < cold)

    in_process(scene, ModelSource(tmp_path, repository.scan, build))

"""Requests whose guides take long to make: they are calls from the beginning, and enter the engine later."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import pytest
from patience import PATIENCE_S
from scripted_host import Model, address, over, read, submit, until

from pipelines.base.errors import RequestError, Unavailable
from pipelines.host import host_view
from pipelines.wire.requests import Origin, Submit, TokenRequest
from pipelines.wire.sampling_params import GuideSpec, SamplingParams
from pipelines.wire.update_queue import UpdateQueue


@dataclass(eq=False)
class SlowModel(Model):
    """Makes no guide before `ready` is set; `told` is what its engine got."""

    ready: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    raises: Exception | None = None
    told: list = field(default_factory=list)

    def guide_maker(self, node, params):
        self.asked.set()
        self.ready.wait(PATIENCE_S)
        if self.raises is not None:
            raise self.raises
        return lambda: params.guide.grammar

    def listen(self):
        engine = self.engines["generated"]
        take = engine.submit

        def submit(key, request):
            self.told.append(request.guide())
            take(key, request)

        engine.submit = submit


@pytest.fixture
def slow(repository, running_host):
    """The host's model, once it is loaded."""
    models_built = []
    build = repository.build

    def slowly(folder, folders):
        model = build(folder, folders)
        models_built.append(SlowModel(model.engines))
        models_built[-1].listen()
        repository.built[-1] = models_built[-1]
        return models_built[-1]

    running_host.host._loader._build = slowly
    return models_built


def ask(client, n=1, max_tokens=3, name=""):
    update_queue = UpdateQueue()
    params = SamplingParams(max_tokens=max_tokens, guide=GuideSpec("start: x"))
    request = TokenRequest([[1, 2]], params, n, origin=Origin(name))
    return client.submit(Submit(address(client), request), update_queue), update_queue


async def reload(running_host, slow, client):
    """Have the host load the model once more, as a slow one."""
    before = client.status.models[0].instance_id
    running_host.host._loader._known.clear()
    running_host.host.rescan()
    await until(lambda: slow and client.status.models[0].instance_id not in (0, before))
    return slow[-1]


def scene_of(running_host, slow, scene):
    async def whole(client):
        return await scene(client, await reload(running_host, slow, client))

    return over(running_host, whole)


def test_a_request_enters_its_engine_when_its_guide_is_made(running_host, slow):
    async def scene(client, model):
        _, update_queue = ask(client)
        await until(model.asked.is_set)
        assert not model.told
        model.ready.set()
        return await read(update_queue), model.told

    assert scene_of(running_host, slow, scene) == (({0: [0, 1, 2]}, {0: "length"}), ["start: x"])


def test_others_go_on_meanwhile(running_host, slow):
    async def scene(client, model):
        _, waiting = ask(client)
        engine = model.engines["generated"]
        engine.submit = type(engine).submit.__get__(engine)
        _, update_queue = submit(client, prompts=[[1]], max_tokens=2)
        others = await read(update_queue)
        model.listen()
        model.ready.set()
        await read(waiting)
        return others

    assert scene_of(running_host, slow, scene) == ({0: [0, 1]}, {0: "length"})


def test_a_guide_that_cannot_be_made_is_the_requests_fault(running_host, slow):
    async def scene(client, model):
        model.raises = RequestError("Grammar error: no")
        model.ready.set()
        with pytest.raises(RequestError, match="Grammar error: no"):
            await read(ask(client)[1])
        return len(running_host.host._calls)

    assert scene_of(running_host, slow, scene) == 0


def test_what_was_aborted_meanwhile_never_enters(running_host, slow):
    async def scene(client, model):
        request_id, _ = ask(client)
        await until(model.asked.is_set)
        client.abort(request_id)
        await until(lambda: not running_host.host._calls)
        model.ready.set()
        await asyncio.sleep(0.05)
        return model.told

    assert scene_of(running_host, slow, scene) == []


def test_a_choice_that_was_aborted_meanwhile_gives_nothing(running_host, slow):
    async def scene(client, model):
        request_id, update_queue = ask(client, n=3)
        await until(model.asked.is_set)
        client.abort(request_id, 1)
        await until(lambda: any(call.open == {0, 2} for call in running_host.host._calls))
        model.ready.set()
        tokens = {}
        while len(tokens) < 2 or any(len(ids) < 3 for ids in tokens.values()):
            for update in await asyncio.wait_for(update_queue.get(), PATIENCE_S):
                tokens.setdefault(update.choice, []).extend(update.piece.token_ids)
        return sorted(tokens)

    assert scene_of(running_host, slow, scene) == [0, 2]


def test_a_drained_host_waits_for_guides_that_are_being_made(running_host, slow):
    async def scene(client, model):
        _, update_queue = ask(client)
        await until(model.asked.is_set)
        running_host.host.drain()
        await until(lambda: client.status.state == "draining")
        with pytest.raises(Unavailable):
            await read(ask(client)[1])
        model.ready.set()
        return await read(update_queue)

    assert scene_of(running_host, slow, scene) == ({0: [0, 1, 2]}, {0: "length"})


def test_a_worker_that_left_meanwhile_is_forgotten(running_host, slow):
    async def scene(client, model):
        ask(client)
        await until(model.asked.is_set)
        await client.close()
        await until(lambda: not running_host.host._calls)
        model.ready.set()

    scene_of(running_host, slow, scene)
    assert not slow[-1].told


def test_a_request_whose_guide_is_being_made_is_shown_as_waiting_and_can_be_cancelled(
    running_host, slow, monkeypatch
):
    monkeypatch.setattr(host_view, "REUSE_S", 0.0)

    async def scene(client, model):
        _, update_queue = ask(client, n=2, name="mine")
        await until(model.asked.is_set)
        (before,) = await client.inspect("m")
        num_cancelled = await client.cancel("mine")
        _, finish = await read(update_queue)
        (after,) = await client.inspect("m")
        model.ready.set()
        return before.nodes[0], num_cancelled, finish, after.nodes[0], model.told

    before, num_cancelled, finish, after, told = scene_of(running_host, slow, scene)
    (waiting,) = before.sequences
    assert (waiting.name, waiting.state, waiting.prompt_tokens, waiting.max_tokens) == (
        "mine",
        "waiting",
        2,
        3,
    )
    assert (before.waiting, num_cancelled, finish) == (1, 1, {0: "abort", 1: "abort"})
    assert (after.waiting, after.sequences, told) == (0, [], [])

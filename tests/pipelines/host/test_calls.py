"""Requests through a real socket to a real host thread around a scripted engine."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from patience import PATIENCE_S
from scripted_host import connected, over, read, submit, until

from pipelines.base.errors import EngineError, NotFound, RequestError, Unavailable
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.messages import Frame
from pipelines.wire.socket_link import over_socket
from pipelines.wire.token_piece import PieceLogprobs


def test_tokens_come_in_order_and_the_end_is_told(running_host):
    async def scene(client):
        return await read(submit(client)[1])

    assert over(running_host, scene) == ({0: [0, 1, 2]}, {0: "length"})


def test_each_prompt_gets_n_choices(running_host):
    async def scene(client):
        return await read(submit(client, prompts=[[1], [2]], n=2)[1])

    tokens, _ = over(running_host, scene)
    assert tokens == {choice: [0, 1, 2] for choice in range(4)}


def test_the_engine_knows_the_tenant_of_a_request(running_host, repository):
    async def scene(client):
        return await read(submit(client, tenant="ann")[1])

    over(running_host, scene)
    assert repository.engine.tenants == ["ann"]


def test_many_requests_at_once_are_kept_apart(running_host):
    async def scene(client):
        boxes = [submit(client, max_tokens=1 + number)[1] for number in range(20)]
        return await asyncio.gather(*map(read, boxes))

    assert [len(tokens[0]) for tokens, _ in over(running_host, scene)] == [1 + number for number in range(20)]


def test_client_forgets_what_has_ended(running_host):
    async def scene(client):
        await read(submit(client)[1])
        return client.num_in_flight

    assert over(running_host, scene) == 0


def test_abort_frees_the_request_in_the_engine(running_host, repository):
    async def scene(client):
        request_id, update_queue = submit(client, max_tokens=10**9)
        await update_queue.get()
        client.abort(request_id)
        await until(lambda: not repository.engine.live)
        return client.num_in_flight

    assert over(running_host, scene) == 0


def test_abort_of_one_choice_leaves_the_others(running_host, repository):
    async def scene(client):
        request_id, update_queue = submit(client, max_tokens=40, n=2)
        client.abort(request_id, 0)
        return await read(update_queue)

    _, finish = over(running_host, scene)
    assert finish[1] == "length"
    assert finish.get(0) is None


def test_engine_refuses_a_request_by_raising(running_host):
    async def scene(client):
        await read(submit(client, prompts=[[]])[1])

    with pytest.raises(RequestError, match="prompt is empty"):
        over(running_host, scene)


def test_unknown_model_is_not_found(running_host):
    async def scene(client):
        await read(submit(client, model="other")[1])

    with pytest.raises(NotFound, match="`other` does not exist"):
        over(running_host, scene)


def test_unknown_load_of_a_known_model_may_be_tried_again(running_host):
    async def scene(client):
        await read(submit(client, instance_id=1)[1])

    with pytest.raises(Unavailable, match="reloaded"):
        over(running_host, scene)


def test_fault_of_the_host_is_not_shown_to_the_client(running_host):
    async def scene(client):
        await read(submit(client, node="nowhere")[1])

    with pytest.raises(EngineError, match="the engine failed on this request"):
        over(running_host, scene)


def test_step_that_raises_fails_its_requests_and_the_host_goes_on(running_host, repository):
    async def scene(client):
        _, update_queue = submit(client, max_tokens=10**9)
        await update_queue.get()
        repository.engine.raises = RuntimeError("device lost")
        with pytest.raises(EngineError):
            await read(update_queue)
        return await read(submit(client)[1])

    assert over(running_host, scene)[1] == {0: "length"}


def test_lost_worker_frees_its_requests(running_host, repository):
    async def scene(client):
        _, update_queue = submit(client, max_tokens=10**9)
        await update_queue.get()
        client._link.close()
        await until(lambda: not repository.engine.live)
        with pytest.raises(Unavailable):
            await read(update_queue)

    over(running_host, scene)


def test_one_worker_leaving_does_not_touch_another(running_host, repository):
    async def scene(client):
        async with connected(running_host.path) as other:
            submit(other, max_tokens=10**9)
            _, update_queue = submit(client, max_tokens=200)
            await update_queue.get()
        return await read(update_queue)

    assert over(running_host, scene)[1] == {0: "length"}


def test_abort_all_ends_every_stream_with_the_given_error(running_host, repository):
    async def scene(client):
        boxes = [submit(client, max_tokens=10**9)[1] for _ in range(3)]
        await boxes[0].get()
        client.abort_all(Unavailable("shutting down"))
        for update_queue in boxes:
            with pytest.raises(Unavailable, match="shutting down"):
                await read(update_queue)
        await until(lambda: not repository.engine.live)

    over(running_host, scene)


def test_without_a_host_a_request_is_refused_at_once(tmp_path):
    async def scene():
        client = over_socket(str(tmp_path / "nobody.sock"))
        await client.start()
        await asyncio.sleep(0.01)
        with pytest.raises(Unavailable) as caught:
            submit(client, instance_id=1)
        await client.close()
        return caught.value.retry_after_s

    assert asyncio.run(scene()) > 0


def test_malformed_frame_closes_only_its_connection(running_host):
    async def scene(client):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(running_host.path))
            stranger.settimeout(PATIENCE_S)
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert await asyncio.to_thread(stranger.recv, 1) == b""
        return await read(submit(client)[1])

    assert over(running_host, scene)[1] == {0: "length"}


def test_one_frame_carries_a_whole_step(running_host, repository, monkeypatch):
    async def scene(client):
        sizes, together, step = [], threading.Event(), repository.engine.step

        def patient():
            if len(repository.engine.live) == 8:
                together.set()
            return step() if together.is_set() else []

        monkeypatch.setattr(repository.engine, "step", patient)
        received = client.received
        client.received = lambda message: (
            sizes.append(len(getattr(message, "updates", []))),
            received(message),
        )
        await asyncio.gather(*[read(submit(client, max_tokens=5)[1]) for _ in range(8)])
        return sizes

    assert max(over(running_host, scene)) == 8


def test_what_tells_of_a_prompt_goes_in_a_frame_of_its_own(running_host, repository, monkeypatch):
    scores = [TokenLogprobs(-1.0, 1, [], [])] * 3

    async def scene(client):
        plain, frames = repository.engine.step, []

        def step():
            first, *others = plain()
            first.piece.logprobs = PieceLogprobs(prompt=scores)
            return [first, *others]

        monkeypatch.setattr(repository.engine, "step", step)
        received = client.received
        client.received = lambda message: (frames.append(message), received(message))
        await read(submit(client, n=3, max_tokens=1)[1])
        return [message.updates for message in frames if isinstance(message, Frame)]

    alone, others = over(running_host, scene)
    assert [update.piece.logprobs.prompt for update in alone] == [scores]
    assert [update.piece.logprobs for update in others] == [None, None]

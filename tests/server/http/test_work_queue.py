"""Work of requests off the event loop: in turns, bounded, and not for clients who left."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest
from patience import PATIENCE_S
from scripted import ScriptedPipeline

from pipelines.base.cancellation import ClientGone, check_cancelled
from pipelines.base.errors import Overloaded
from server.http.work_queue import NUM_THREADS, WorkQueue

LONG = "x" * (100 << 10)
"""A prompt whose work is long."""
MIDDLE = "x" * (20 << 10)
"""A prompt whose work is short, but not done on the event loop."""


def run(scene, max_bytes=1000):
    """What `scene(queue)` returns; the threads of the queue end with it."""

    async def whole():
        queue = WorkQueue("test", max_bytes)
        try:
            return await scene(queue)
        finally:
            queue.close()

    return asyncio.run(whole())


class Held:
    """Work that occupies every thread until `go`, so that all other work waits."""

    def __init__(self, queue):
        self.go = threading.Event()
        self.jobs = [queue.put(self.go.wait, 0, "") for _ in range(NUM_THREADS)]

    async def release(self, *jobs):
        self.go.set()
        await asyncio.wait([job.done for job in (*self.jobs, *jobs)])


def test_work_gives_its_result_or_its_error():
    async def scene(queue):
        assert await queue.put(lambda: 5, 1, "a").done == 5
        with pytest.raises(ZeroDivisionError):
            await queue.put(lambda: 1 / 0, 1, "a").done

    run(scene)


def test_work_sees_the_context_of_its_request():
    seen = ContextVar("seen")

    async def scene(queue):
        seen.set("this request")
        return await queue.put(seen.get, 1, "a").done

    assert run(scene) == "this request"


def test_tenants_take_turns():
    async def scene(queue):
        held, order = Held(queue), []
        jobs = [queue.put(lambda i=i: order.append(f"greedy {i}"), 1, "greedy") for i in range(6)]
        jobs += [queue.put(lambda: order.append("other"), 1, "other")]
        await held.release(*jobs)
        return order

    order = run(scene)
    assert len(order) == 7
    assert order.index("other") <= NUM_THREADS


def test_work_that_nobody_wants_never_runs():
    async def scene(queue):
        held, ran = Held(queue), []
        unwanted = queue.put(lambda: ran.append("unwanted"), 900, "a")
        unwanted.drop(ClientGone())
        wanted = queue.put(lambda: ran.append("wanted"), 900, "a")  # the bytes of the other are free again
        await held.release(wanted)
        with pytest.raises(ClientGone):
            await unwanted.done
        return ran

    assert run(scene) == ["wanted"]


def test_long_work_that_nobody_wants_ends():
    async def scene(queue):
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work():
            loop.call_soon_threadsafe(begun.set)
            while True:
                check_cancelled()

        jobs = [queue.put(work, 1, "a") for _ in range(NUM_THREADS)]
        await begun.wait()
        for job in jobs:
            job.drop(ClientGone())
        assert await asyncio.wait_for(queue.put(int, 1, "a").done, PATIENCE_S) == 0
        return [type(job.done.exception()) for job in jobs]

    assert run(scene) == [ClientGone] * NUM_THREADS


def test_a_full_queue_refuses():
    async def scene(queue):
        held = Held(queue)
        jobs = [queue.put(int, 400, tenant) for tenant in ("a", "b")]
        with pytest.raises(Overloaded, match="^0 MB of requests wait") as refused:
            queue.put(int, 400, "c")
        await held.release(*jobs)
        assert await queue.put(int, 400, "c").done == 0
        return refused.value

    error = run(scene)
    assert (error.status, error.retry_after_s) == (429, 2)


def test_a_tenant_fills_half_of_the_queue_at_most():
    async def scene(queue):
        held = Held(queue)
        jobs = [queue.put(int, 400, "a")]
        with pytest.raises(Overloaded, match="of this API key or session"):
            queue.put(int, 400, "a")
        jobs += [queue.put(int, 400, "b")]
        await held.release(*jobs)

    run(scene)


def test_a_request_of_any_size_fits_alone():
    async def scene(queue):
        return await queue.put(lambda: "done", 10_000, "a").done

    assert run(scene) == "done"


class SlowPipeline(ScriptedPipeline):
    """Long prompts take until `go`; `prepared` are the first characters of those that were prepared."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.prepared = []

    def prepare(self, generation, client, *more, trace=None):
        text = generation.prompts[0].text
        self.prepared.append(text[0])
        if len(text) > 90_000:
            self.begun.release()
            self.go.wait(PATIENCE_S)
        return super().prepare(generation, client, *more)


def body(prompt):
    return {"model": "tiny", "prompt": prompt}


async def occupied(client, pipeline):
    """Requests whose long work takes all threads for it."""
    requests = [client.begin_post("/v1/completions", body(LONG)) for _ in range(NUM_THREADS)]
    for _ in requests:
        assert await asyncio.to_thread(pipeline.begun.acquire, timeout=PATIENCE_S)
    return requests


def test_nothing_else_waits_for_long_work(make_rig):
    pipeline = SlowPipeline()

    async def scene(client):
        try:
            held = await occupied(client, pipeline)
            held += [client.begin_post("/v1/completions", body(LONG)) for _ in range(16)]
            for prompt in ("hi", MIDDLE):
                assert (await client.post("/v1/completions", body(prompt))).status == 200
            assert (await client.get("/metrics")).status == 200
            assert not any(held_request.task.done() for held_request in held)
        finally:
            pipeline.go.set()
        await asyncio.gather(*(held_request.task for held_request in held))
        return [held_request.answer.status for held_request in held]

    assert set(make_rig(pipeline).run(scene)) == {200}


def test_work_of_a_client_who_left_is_dropped(make_rig):
    pipeline = SlowPipeline()

    async def scene(client):
        try:
            held = await occupied(client, pipeline)
            gone = client.begin_post("/v1/completions", body("g" * 100_000))
            await asyncio.sleep(0.05)
            gone.hang_up()
            await asyncio.wait_for(gone.task, PATIENCE_S)  # while all threads are still taken
        finally:
            pipeline.go.set()
        await asyncio.gather(*(held_request.task for held_request in held))

    make_rig(pipeline).run(scene)
    assert "g" not in pipeline.prepared
    assert len(pipeline.prepared) == NUM_THREADS


def test_overload_is_a_429_with_a_time_to_wait(make_rig):
    pipeline = SlowPipeline()
    rig = make_rig(pipeline)

    async def scene(client):
        try:
            await occupied(client, pipeline)
            return await client.post("/v1/completions", body(LONG))
        finally:
            pipeline.go.set()

    rig.services.work._long._max_bytes = 500_000
    answer = rig.run(scene)
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")
    assert "wait to be read by this worker" in answer.error["message"]

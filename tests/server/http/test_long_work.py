"""Work that turns out to be long begins again where long work is done."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pipelines.base.cancellation import need_long_work
from server.http.exchange import Exchange
from server.http.work_queue import LONG_WORK_BYTES, Work


@pytest.mark.parametrize("num_bytes", [0, 20_000, LONG_WORK_BYTES + 1])
def test_it_runs_in_a_thread_of_long_work(num_bytes):
    began = []

    def work():
        began.append(threading.current_thread().name)
        need_long_work()
        return "done"

    async def scenario():
        async def never():
            await asyncio.Event().wait()

        queues = Work(1)
        exchange = Exchange(never, never, queues)
        try:
            return await exchange.off_loop(work, num_bytes)
        finally:
            exchange.close()
            queues.close()

    assert asyncio.run(scenario()) == "done"
    assert began[-1].startswith("long-work")
    assert len(began) == 1 + (num_bytes <= LONG_WORK_BYTES)

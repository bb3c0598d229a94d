"""Models that a client unloads while lines of composed graphs use them: no call is cut off, no line refused."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from graphs_of_lines import LINES, chat_body, is_free, serving
from patience import until

from pipelines.worker.composed_call import ComposedCall

CHAT = "/v1/chat/completions"
NAMED = ("guarded", "held", "tiny", "handbook", "whisper", "braid-rerank", "braid-sentiment", "braid-embed")


@pytest.fixture
def gate(monkeypatch):
    """Where each request's first lines wait before they ask; `waiting` counts them by models.

    `nested` hands its request on at once: a line of `guarded` waits for it.
    """
    ask, opened = ComposedCall.ask, asyncio.Event()
    opened.waiting = Counter()

    async def noted(self, line, graph, request):
        if not opened.is_set():
            opened.waiting[self.model] += 1
        await opened.wait()
        return await ask(self, line, graph, request)

    monkeypatch.setattr(ComposedCall, "ask", noted)
    return opened


def test_calls_of_composed_graphs_end_after_all_that_they_name_was_unloaded(every_line, gate):
    async def texts(client):
        answers = await asyncio.gather(*(client.post(CHAT, chat_body(name, 8)) for name in LINES))
        failed = [answer.body for answer in answers if answer.status != 200]
        assert not failed, failed
        return [answer.json["choices"][0]["message"]["content"] for answer in answers]

    async def scene(services, client):
        gate.set()
        before = await texts(client)
        gate.clear()
        begun = asyncio.create_task(texts(client))
        await until(lambda: {*gate.waiting} == LINES.keys() - {"nested"} and gate.waiting["guarded"] == 2)
        leaving = [asyncio.create_task(client.post("/models/unload", {"model": name})) for name in NAMED]
        states = services.catalogue.cards
        await until(lambda: {card.state for card in states() if card.name in NAMED} == {"unloading"})
        refused = await client.post(CHAT, chat_body("joined", 8))
        assert refused.status in (404, 503)
        assert "unload" in refused.error["message"]
        gate.set()
        assert await begun == before
        assert {(await unloading).status for unloading in leaving} == {200}
        await until(lambda: is_free(services))
        assert services.catalogue._table.left == {}
        loads = [await client.post("/models/load", {"model": name}) for name in reversed(NAMED)]
        assert {load.status for load in loads} == {200}, [load.body for load in loads]
        assert await texts(client) == before

    async def whole():
        async with serving(every_line, responses_store=False) as (services, client):
            await scene(services, client)

    asyncio.run(whole())

"""A client that hangs up while any line of a composed graph asks: requests, blocks, permits, all is free again."""

from __future__ import annotations

import asyncio

from asgi_client import AsgiClient
from graphs_of_lines import STEPS, chat_body, is_free
from patience import PATIENCE_S, until

from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.worker.composed_call import ComposedCall
from server.app import create_app
from server.base.settings import Settings
from server.connect import make_services


def test_all_is_free_when_a_client_hangs_up_at_any_line(every_line, monkeypatch):
    ask, begun, at = ComposedCall.ask, [], []

    async def noted(self, line, graph, request):
        asked = await ask(self, line, graph, request)
        begun.append(asked)
        if len(begun) == at[0]:
            at[1].hang_up()
        return asked

    monkeypatch.setattr(ComposedCall, "ask", noted)

    async def whole():
        services = make_services(Settings(responses_store=False), InProcessClient(ModelSource(every_line)))
        async with asyncio.timeout(PATIENCE_S), AsgiClient(create_app(services)) as client:
            await until(lambda: {card.state for card in services.catalogue.cards()} == {"ready"})
            for name, number in STEPS:
                begun.clear()
                request = client.begin_post("/v1/chat/completions", chat_body(name))
                at[:] = [number, request]
                await request.task
                assert len(begun) >= number, (name, number)
                await until(lambda: is_free(services))
            assert (await client.post("/v1/search", {"model": "handbook", "query": "whales"})).status == 200

    asyncio.run(whole())

"""A client that hangs up while any line of a composed graph asks: requests, blocks, permits, all is free again."""

from __future__ import annotations

import asyncio

from graphs_of_lines import STEPS, chat_body, is_free, serving
from patience import until

from pipelines.worker.composed_call import ComposedCall


def test_all_is_free_when_a_client_hangs_up_at_any_line(every_line, monkeypatch):
    begin, begun, at = ComposedCall.begin, [], []

    def noted(self, line, call, streams):
        asked = begin(self, line, call, streams)
        begun.append(asked)
        if len(begun) == at[0]:
            at[1].hang_up()
        return asked

    monkeypatch.setattr(ComposedCall, "begin", noted)

    async def whole():
        async with serving(every_line, responses_store=False) as (services, client):
            for name, number in STEPS:
                begun.clear()
                request = client.begin_post("/v1/chat/completions", chat_body(name))
                at[:] = [number, request]
                await request.task
                assert len(begun) >= number, (name, number)
                await until(lambda: is_free(services))
            assert (await client.post("/v1/search", {"model": "handbook", "query": "whales"})).status == 200

    asyncio.run(whole())

"""A context that has room for a prompt, and not for the thinking that is asked for."""

from __future__ import annotations

import asyncio
import re

from scripted_model import serving, write_scripted_model

NO_ROOM = re.compile(r"input length and `max_tokens` exceed context limit: (\d+) \+ (\d+) > (\d+)")


def test_a_client_asks_again_for_what_there_is_room_for(tmp_path):
    write_scripted_model(tmp_path / "m", ["Hello."], max_context=4096)
    body = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}

    async def scene():
        async with serving(tmp_path) as client:

            async def ask(max_tokens, budget=None):
                thinking = {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget else {}
                return await client.post("/v1/messages", {**body, "max_tokens": max_tokens, **thinking})

            full = await ask(8000, 6000)
            used, asked, most = map(int, NO_ROOM.search(full.json["error"]["message"]).groups())
            return full, (used, asked, most), await ask(most - used - 1000, 500), await ask(8000)

    full, (used, asked, most), again, without = asyncio.run(scene())
    assert (full.status, full.json["error"]["type"]) == (400, "invalid_request_error")
    assert (asked, most) == (8000, 4096)
    assert again.status == without.status == 200
    assert again.json["usage"]["input_tokens"] == used

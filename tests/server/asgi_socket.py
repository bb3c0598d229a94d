"""A client of the WebSockets of an ASGI application, without sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from patience import PATIENCE_S


class AsgiSocket:
    """`async with AsgiSocket(app, path) as socket`: connected; hung up at the end."""

    def __init__(self, app: Any, path: str, **headers: str) -> None:
        self._app = app
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        sent = {"host": "test", **{name.replace("_", "-"): value for name, value in headers.items()}}
        offered = sent.get("sec-websocket-protocol", "")
        self.scope = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "subprotocols": [part.strip() for part in offered.split(",") if part.strip()],
            "extensions": {"websocket.http.response": {}},
        }

    async def connect(self) -> dict[str, Any]:
        """The reply to the handshake: an ASGI message; of a refusal with its `json`."""
        self._inbox.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(self._app(self.scope, self._inbox.get, self._outbox.put))
        reply = await self.message()
        if reply["type"] == "websocket.http.response.start":
            reply["json"] = json.loads((await self.message())["body"])
            await self.ended()
        return reply

    async def __aenter__(self) -> Self:
        assert (await self.connect())["type"] == "websocket.accept"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang_up()
        await self.ended()

    def hang_up(self) -> None:
        self._inbox.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def ended(self) -> None:
        await asyncio.wait_for(self.task, PATIENCE_S)

    def say(self, *events: dict[str, Any] | str | bytes) -> None:
        for each in events:
            kind = "bytes" if isinstance(each, bytes) else "text"
            value = json.dumps(each) if isinstance(each, dict) else each
            self._inbox.put_nowait({"type": "websocket.receive", kind: value})

    async def message(self) -> dict[str, Any]:
        return await asyncio.wait_for(self._outbox.get(), PATIENCE_S)

    async def event(self) -> dict[str, Any]:
        return json.loads((await self.message())["text"])

    async def until(self, *kinds: str) -> list[dict[str, Any]]:
        """All events up to the first of these kinds."""
        events = [await self.event()]
        while events[-1]["type"] not in kinds:
            events.append(await self.event())
        return events

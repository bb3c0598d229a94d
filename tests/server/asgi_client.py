"""A client of an ASGI application without sockets: it sees every write, and it can hang up when it likes.

Knows ASGI messages; knows nothing of the application.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from patience import PATIENCE_S


class Answer:
    """What came back: `writes` are the body's pieces as they were sent."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.writes: list[bytes] = []
        self.ended = asyncio.Event()
        self.wrote = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]

    @property
    def events(self) -> list[Any]:
        """The data of a stream's events; "[DONE]" as it stands, comments left out."""
        blocks = self.body.decode().split("\n\n")
        assert blocks.pop() == ""
        found = [block.removeprefix("data: ") for block in blocks if not block.startswith(":")]
        return [text if text == "[DONE]" else json.loads(text) for text in found]

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        if message.get("body"):
            self.writes.append(message["body"])
            self.wrote.set()
        if not message.get("more_body"):
            self.ended.set()


class Request:
    """One request in flight: `answer` fills, `hang_up` is the client's end."""

    def __init__(self, app: Any, scope: dict[str, Any], pieces: list[bytes], stalls: bool) -> None:
        self.answer = Answer()
        self._pieces = pieces
        self._stalls = stalls
        self._gone = asyncio.Event()
        self.task = asyncio.create_task(app(scope, self._receive, self.answer.send))

    async def _receive(self) -> dict[str, Any]:
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or self._stalls}
        waits = [asyncio.create_task(event.wait()) for event in (self._gone, self.answer.ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return {"type": "http.disconnect"}

    def hang_up(self) -> None:
        self._gone.set()


class AsgiClient:
    """`async with AsgiClient(app)` runs the application's lifespan around the requests."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.state: dict[str, Any] = {}
        """What the server of the application gives to its lifespan."""

    async def __aenter__(self) -> AsgiClient:
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        self._lifespan = asyncio.create_task(self._app(scope, self._inbox.get, self._outbox.put))
        await self._turn("startup")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._turn("shutdown")
        await self._lifespan

    async def _turn(self, name: str) -> None:
        await self._inbox.put({"type": f"lifespan.{name}"})
        message = await self._outbox.get()
        assert message["type"] == f"lifespan.{name}.complete", message

    def begin(
        self,
        method: str,
        path: str,
        body: bytes | list[bytes] = b"",
        headers: dict[str, str] | None = None,
        stalls: bool = False,
    ) -> Request:
        """`body` as a list goes out in pieces; one that stalls never ends."""
        pieces = list(body) if isinstance(body, list) else [body]
        sent = {"host": "test", **(headers or {})}
        if isinstance(body, bytes) and body:
            sent.setdefault("content-length", str(len(body)))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        return Request(self._app, scope, pieces, stalls)

    async def ask(self, method: str, path: str, *args: Any, **more: Any) -> Answer:
        request = self.begin(method, path, *args, **more)
        await asyncio.wait_for(request.task, PATIENCE_S)
        return request.answer

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def begin_post(self, path: str, body: Any, **headers: str) -> Request:
        data = body if isinstance(body, bytes | list) else json.dumps(body).encode()
        sent = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return self.begin("POST", path, data, sent)

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        request = self.begin_post(path, body, **headers)
        await asyncio.wait_for(request.task, PATIENCE_S)
        return request.answer

"""A client of WebSockets without sockets, sound for it, and a scripted model that hears a word each second."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import numpy as np
from patience import PATIENCE_S
from speech_rig import heard, segment

from pipelines.values.reply_values import SpeechUpdate

RATE = 16_000
WORDS = [f" w{i}" for i in range(1, 700)]
REALTIME = "/v1/realtime"


def spoken(seconds: float, rate: int = RATE) -> bytes:
    """Sound as loud as speech, with gaps of a tenth of a second that are not silent."""
    at = np.arange(round(seconds * rate))
    level = np.where(at * 10 // rate % 2, 300, 9000)
    return (level * np.sin(at * (2 * np.pi * 440 / rate))).astype("<i2").tobytes()


def silence(seconds: float, rate: int = RATE) -> bytes:
    return bytes(2 * round(seconds * rate))


def one_word_each_second(request: Any) -> list[SpeechUpdate]:
    """What the window has beyond the text that it begins with."""
    (sound,) = request.windows
    seconds = len(sound) / RATE
    first = len(request.previous_text.split())
    begun = len(request.begins_with.split())
    text = "".join(WORDS[first + begun : first + int(seconds)])
    return [heard(text, "stop", [segment(0, seconds, text)], language=request.language or "en")]


def append(data: bytes) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(data).decode()}


COMMIT: dict[str, Any] = {"type": "input_audio_buffer.commit"}
FINAL = COMMIT | {"final": True}
UPDATE = {"type": "session.update", "model": "tiny"}


class Socket:
    """`async with Socket(rig.app) as socket`: connected, `session.created` read; hung up at the end."""

    def __init__(self, app: Any, path: str = REALTIME, **headers: str) -> None:
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
            "subprotocols": [each.strip() for each in offered.split(",") if each.strip()],
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

    async def __aenter__(self) -> Socket:
        assert (await self.connect())["type"] == "websocket.accept"
        self.created = await self.event()
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


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [each["type"] for each in events]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith(".delta"))

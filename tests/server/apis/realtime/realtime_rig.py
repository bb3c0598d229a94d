"""A client of WebSockets without sockets, sound for it, and a scripted model that hears a word each second."""

from __future__ import annotations

import base64
from typing import Any, Self

import numpy as np
from asgi_socket import AsgiSocket
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


class Socket(AsgiSocket):
    """`async with Socket(rig.app) as socket`: connected, `session.created` read; hung up at the end."""

    def __init__(self, app: Any, path: str = REALTIME, **headers: str) -> None:
        super().__init__(app, path, **headers)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.created = await self.event()
        return self


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [each["type"] for each in events]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith(".delta"))

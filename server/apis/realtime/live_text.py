"""The utterances of one socket, one after another: at most one window of a socket is read at a time."""

from __future__ import annotations

import asyncio
from typing import Protocol

import falcon

from pipelines.base.errors import BraidError, Overloaded
from pipelines.telemetry.speech import count_audio
from server.apis.realtime.growing_text import GrowingText
from server.apis.realtime.utterance import Utterance
from server.apis.realtime.window_reader import ReadingCost, SpeechChoice, WindowReader
from server.http.errors import public_error
from server.http.socket_exchange import SocketExchange
from server.services.services import Services

MAX_WAITING = 64
"""Utterances of a socket that wait for the ones before them."""


class TextListener(Protocol):
    """Gets the text of utterances as it comes."""

    async def on_delta(self, utterance: Utterance, delta: str) -> None: ...

    async def on_done(self, utterance: Utterance, text: str, cost: ReadingCost) -> None: ...

    async def on_failed(self, utterance: Utterance, error: BraidError) -> None: ...


class LiveText:
    """Reads utterances from when they are started; `run` is one task, which ends with its socket."""

    def __init__(self, services: Services, socket: SocketExchange) -> None:
        self._services = services
        self._socket = socket
        self._waiting: asyncio.Queue[tuple[Utterance, SpeechChoice, TextListener]] = asyncio.Queue()
        self._running: tuple[Utterance, asyncio.Task[None]] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether text of an utterance that has ended is still to come."""
        return not self._waiting.empty() or (self._running is not None and self._running[0].is_ended)

    def start(self, utterance: Utterance, choice: SpeechChoice, listener: TextListener) -> None:
        """Raises Overloaded."""
        if self._waiting.qsize() >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING} utterances of this socket wait to be read")
        self._waiting.put_nowait((utterance, choice, listener))

    def clear(self, utterance: Utterance) -> None:
        """No more text of an utterance is wanted."""
        utterance.clear()
        if self._running is not None and self._running[0] is utterance:
            self._running[1].cancel()

    async def run(self) -> None:
        while True:
            utterance, choice, listener = await self._waiting.get()
            if utterance.is_cleared:
                continue
            reading = asyncio.create_task(self._read(utterance, choice, listener))
            self._running = utterance, reading
            try:
                await reading
            except asyncio.CancelledError:
                if not utterance.is_cleared:
                    raise
            finally:
                reading.cancel()
                self._running = None

    async def _read(self, utterance: Utterance, choice: SpeechChoice, listener: TextListener) -> None:
        reader = WindowReader(self._services, self._socket, choice)
        text = GrowingText(utterance, reader)
        try:
            async for delta in text.deltas():
                await listener.on_delta(utterance, delta)
            await listener.on_done(utterance, text.text, reader.cost)
        except falcon.WebSocketDisconnected:
            return
        except Exception as error:
            utterance.clear()
            await listener.on_failed(utterance, public_error(error, self._socket.trace))
            return
        if reader.cost.model:
            count_audio(reader.cost.model, utterance.duration_s, reader.cost.seconds)

"""One socket from its first event to its last: events of the client in turn, each answered in its kind.

Errors never end a socket; its client does, or a time without events.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, NamedTuple, Protocol

import falcon
import falcon.asgi

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import BraidError, RequestError
from server.apis.realtime.client_events import INVALID_EVENT, parse_event
from server.apis.realtime.live_text import TextListener
from server.apis.realtime.openai_events import SessionCreatedEvent
from server.apis.realtime.openai_realtime import OpenAIRealtime
from server.apis.realtime.realtime_session import RealtimeSession
from server.apis.realtime.vllm_realtime import VllmRealtime
from server.http.errors import public_error
from server.http.socket_exchange import SocketExchange
from server.services.services import Services

GOING_AWAY = 1001
"""The close code of a socket that its client does not use."""
UPDATES = ("session.update", "transcription_session.update")


class Manner(NamedTuple):
    """What the handshake says of the events: whose they are, of which version, and what they are for."""

    is_openai: bool
    is_older: bool
    is_transcription: bool


class EventKind(TextListener, Protocol):
    """One kind of events: vLLM's or OpenAI's."""

    talks: bool

    @property
    def has_sound(self) -> bool: ...

    @property
    def is_busy(self) -> bool: ...

    def shown(self) -> dict[str, Any]: ...

    async def open(self) -> None: ...

    async def take(self, event: dict[str, Any]) -> None: ...

    async def report(self, error: BraidError, event: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


class EventLoop:
    """Events are vLLM's unless the handshake names OpenAI's, or the first update has an object `session`."""

    def __init__(
        self,
        services: Services,
        ws: falcon.asgi.WebSocket,
        socket: SocketExchange,
        asked_model: str | None,
        manner: Manner,
    ) -> None:
        self._ws = ws
        self._socket = socket
        self._idle_s = services.settings.socket_idle_s
        self._session = RealtimeSession(services, ws, socket, asked_model)
        self._is_older = manner.is_older
        self._is_transcription = manner.is_transcription
        self._kind: EventKind = self._openai() if manner.is_openai else VllmRealtime(self._session)

    def _openai(self) -> OpenAIRealtime:
        return OpenAIRealtime(self._session, self._is_older)

    def _conversation(self) -> OpenAIRealtime:
        """Imported for the first conversation: most servers have none."""
        from server.apis.realtime.conversation import ConversationRealtime

        return ConversationRealtime(self._session, self._is_older)

    async def run(self) -> None:
        """Returns when the client has left, or the socket was closed."""
        session = self._session
        live = asyncio.create_task(session.live_text.run(), name=f"live-text-{session.id}")
        try:
            with contextlib.suppress(falcon.WebSocketDisconnected, ClientGone):
                await self._open_kind()
                shown = self._kind.shown()
                await session.send(
                    SessionCreatedEvent(
                        type="session.created", id=session.id, created=session.created, session=shown
                    )
                )
                while await self._turn():
                    pass
        finally:
            live.cancel()
            self._kind.close()

    async def _open_kind(self) -> None:
        """A socket whose address names a chat model is a conversation."""
        if self._is_transcription or not self._session.names_talker:
            return
        self._kind.close()
        self._kind = self._conversation()
        try:
            await self._kind.open()
        except BraidError as error:
            await self._kind.report(error, {})

    async def _turn(self) -> bool:
        """Take one event; False once the socket was idle for too long."""
        try:
            async with asyncio.timeout(self._idle_s):
                text = await self._ws.receive_text()
        except TimeoutError:
            if not (self._session.live_text.is_busy or self._kind.is_busy):
                await self._ws.close(GOING_AWAY, f"no event came for {self._idle_s:g} seconds")
                return False
        except falcon.PayloadTypeError:
            await self._kind.report(RequestError("Events are texts of JSON", word=INVALID_EVENT), {})
        else:
            await self._take(text)
        return True

    async def _take(self, text: str) -> None:
        event: dict[str, Any] = {}
        try:
            event = await self._socket.off_loop(lambda: parse_event(text), len(text))
            await self._choose_kind(event)
            await self._kind.take(event)
        except (falcon.WebSocketDisconnected, ClientGone):
            raise
        except Exception as error:
            await self._kind.report(public_error(error, self._socket.trace), event)

    async def _choose_kind(self, event: dict[str, Any]) -> None:
        session = event.get("session")
        is_update = event.get("type") in UPDATES and isinstance(session, dict)
        if not is_update or self._kind.has_sound:
            return
        assert isinstance(session, dict)
        if session.get("type") == "realtime" and not (self._kind.talks or self._is_transcription):
            self._kind.close()
            self._kind = self._conversation()
        elif isinstance(self._kind, VllmRealtime):
            self._kind.close()
            self._kind = self._openai()

"""OpenAI's events of transcription sessions: turns found by the server or ended by the client, as items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from pipelines.base.errors import BraidError, RequestError
from pipelines.nodes.speech.windows import SAMPLES_PER_S
from server.apis.realtime.client_events import AppendEvent, ClientEvent, checked
from server.apis.realtime.openai_events import (
    BufferClearedEvent,
    CommittedEvent,
    EventFault,
    FaultEvent,
    ItemEvent,
    SecondsUsage,
    SessionEvent,
    SpeechStartedEvent,
    SpeechStoppedEvent,
    SpokenItem,
    TextCompletedEvent,
    TextDeltaEvent,
    TextFailedEvent,
)
from server.apis.realtime.openai_session_fields import (
    OlderSessionUpdate,
    SessionState,
    SessionUpdate,
    TurnFields,
)
from server.apis.realtime.pcm import Pcm, PcmReader
from server.apis.realtime.realtime_session import RealtimeSession
from server.apis.realtime.turns import TurnDetector
from server.apis.realtime.utterance import Utterance
from server.apis.realtime.window_reader import ReadingCost, SpeechChoice

Handler = Callable[[dict[str, Any]], Awaitable[None]]
LEAST_S = 0.1
"""Less sound cannot be committed."""
SAMPLES_PER_MS = SAMPLES_PER_S // 1000


class OpenAIRealtime:
    """One socket of a client of OpenAI's.

    Samples are counted from the session's beginning.  `_open` is the utterance that speech goes to, if there
    is one; the last `_waiting` samples belong to none yet.
    """

    talks = False
    hint = "  Sessions without a chat model are of transcription only."

    def __init__(self, session: RealtimeSession, is_older: bool) -> None:
        """`is_older`: items are announced as in the beta of the interface."""
        self._session = session
        self.is_older = is_older
        self._state = self.new_state()
        self._pcm: PcmReader | None = None
        self._num_samples = 0
        self._waiting = np.empty(0, np.int16)
        self._open: Utterance | None = None
        self._turns: TurnDetector | None = None
        self._turns = self._detector(self._state.turns)
        self._last_item: str | None = None

    def new_state(self) -> SessionState:
        """What holds when a socket opens."""
        return SessionState()

    @property
    def has_sound(self) -> bool:
        return self._num_samples > 0

    async def take(self, event: dict[str, Any]) -> None:
        """Raises RequestError and other errors of requests."""
        kind = event.get("type")
        handlers = self.handlers()
        handle = handlers.get(kind) if isinstance(kind, str) else None
        if handle is None:
            raise RequestError(
                f"Invalid value: '{str(kind)[:128]}'. Supported values are: "
                f"{', '.join(repr(name) for name in handlers)}.{self.hint}",
                "type",
                word="invalid_value",
            )
        await handle(event)

    def handlers(self) -> dict[str, Handler]:
        """What takes the events of each type."""
        return {
            "session.update": self._update,
            "transcription_session.update": self._update_older,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
        }

    @property
    def is_busy(self) -> bool:
        """Whether the client waits for something."""
        return False

    def shown(self) -> dict[str, Any]:
        """The session as clients see it."""
        return {"id": self._session.id, **self._state.shown()}

    async def open(self) -> None:
        """Prepare what clients read of the session."""

    def close(self) -> None:
        """Nothing is left to stop."""

    async def report(self, error: BraidError, event: dict[str, Any]) -> None:
        event_id = event.get("event_id")
        fault = fault_of(error, event_id if isinstance(event_id, str) else None)
        await self._session.send(FaultEvent(error=fault))

    # --- the session

    async def _update(self, event: dict[str, Any]) -> None:
        await self._set(self._state.update(checked(SessionUpdate, event).session))
        await self._session.send(SessionEvent(type="session.updated", session=self.shown()))

    async def _update_older(self, event: dict[str, Any]) -> None:
        self.is_older = True
        await self._set(self._state.update(checked(OlderSessionUpdate, event).session))
        shown = {"id": self._session.id, **self._state.shown_older()}
        await self._session.send(SessionEvent(type="transcription_session.updated", session=shown))

    async def _set(self, state: SessionState) -> None:
        """Raises NotFound for a model that does not read speech, and RequestError."""
        if state.transcription.model is not None:
            await self._session.check_model(state.transcription.model)
        if self._pcm is not None and state.form != self._pcm.form:
            self._pcm = PcmReader(state.form)
        if state.turns != self._state.turns:
            self._turns = self._detector(state.turns)
        self._state = state

    def _detector(self, turns: TurnFields | None) -> TurnDetector | None:
        """What finds turns; speech that has begun goes on, and ends as `turns` says."""
        if turns is None:
            return None
        if self._turns is not None:
            self._turns.change(turns.threshold, turns.silence_ms)
            return self._turns
        speaks = self._open is not None
        return TurnDetector(turns.threshold, turns.silence_ms, self._num_samples, speaks)

    async def _choice(self) -> SpeechChoice:
        model = self._state.transcription.model or self._session.default_model
        return self._state.choice(await self._session.check_model(model))

    # --- sound

    async def _append(self, event: dict[str, Any]) -> None:
        audio = checked(AppendEvent, event).audio
        self._pcm = self._pcm or PcmReader(self._state.form)
        samples = await self._session.samples(self._pcm, audio)
        self._num_samples += len(samples)
        self._waiting = np.concatenate([self._waiting, samples])
        try:
            await self._speak() if self._turns is None else await self._listen(self._turns, samples)
        finally:
            self._drop(self._num_samples - self._padding - SAMPLES_PER_S // 10)

    async def _listen(self, turns: TurnDetector, samples: Pcm) -> None:
        """Sound within turns is speech."""
        for turn in turns.push(samples):
            await (self._on_start if turn.begins else self._on_stop)(turn.at)
        if self._open is not None:
            self._give(self._num_samples)

    @property
    def _padding(self) -> int:
        """Samples before the beginning of speech that belong to it."""
        return (self._state.turns or TurnFields()).prefix_padding_ms * SAMPLES_PER_MS

    async def _speak(self) -> None:
        """All sound that waits is speech."""
        if self._open is None:
            await self._begin()
        self._give(self._num_samples)

    async def _begin(self) -> Utterance:
        """What comes from now on is an utterance, whose text comes while it lasts."""
        choice = await self._choice()
        utterance = self._session.new_utterance()
        self._session.start(utterance, choice, self)
        self._open = utterance
        return utterance

    def _drop(self, until: int) -> None:
        first = self._num_samples - len(self._waiting)
        self._waiting = self._waiting[max(0, until - first) :]

    def _give(self, until: int) -> None:
        """Sound before `until` belongs to the open utterance.  Raises RequestError where too much waits."""
        num_samples = max(0, until - (self._num_samples - len(self._waiting)))
        given, self._waiting = self._waiting[:num_samples], self._waiting[num_samples:]
        assert self._open is not None
        self._open.append(given)

    async def _on_start(self, at: int) -> None:
        self._drop(at - self._padding)
        first = self._num_samples - len(self._waiting)
        utterance = await self._begin()
        event = SpeechStartedEvent(audio_start_ms=first // SAMPLES_PER_MS, item_id=utterance.id)
        await self._session.send(event)

    async def _on_stop(self, at: int) -> None:
        if self._open is None:
            return  # it failed, or the client committed it
        self._give(at)
        event = SpeechStoppedEvent(audio_end_ms=at // SAMPLES_PER_MS, item_id=self._open.id)
        await self._session.send(event)
        await self._end()

    async def _commit(self, event: dict[str, Any]) -> None:
        checked(ClientEvent, event)
        held_s = len(self._waiting) / SAMPLES_PER_S + (0.0 if self._open is None else self._open.duration_s)
        if held_s < LEAST_S:
            raise RequestError(
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, "
                f"but buffer only has {held_s * 1000:.2f}ms of audio.",
                word="input_audio_buffer_commit_empty",
            )
        await self._speak()
        await self._end()
        self._stop_turn()

    def _stop_turn(self) -> None:
        if self._turns is not None:
            self._turns.stop()

    async def _end(self) -> None:
        """The open utterance is an item now."""
        utterance, previous = self._open, self._last_item
        assert utterance is not None
        self._open, self._last_item = None, utterance.id
        await self._announce(utterance, previous)
        utterance.end()

    async def _announce(self, utterance: Utterance, previous: str | None) -> None:
        send, item = self._session.send, SpokenItem(id=utterance.id)
        await send(CommittedEvent(previous_item_id=previous, item_id=utterance.id))
        if self.is_older:
            await send(ItemEvent(type="conversation.item.created", previous_item_id=previous, item=item))
        else:
            await send(ItemEvent(type="conversation.item.added", previous_item_id=previous, item=item))
            await send(ItemEvent(type="conversation.item.done", previous_item_id=previous, item=item))

    async def _clear(self, event: dict[str, Any]) -> None:
        self._waiting = self._waiting[:0]
        if self._open is not None:
            self._session.live_text.clear(self._open)
            self._open = None
        self._stop_turn()
        await self._session.send(BufferClearedEvent())

    # --- the text as it comes

    async def on_delta(self, utterance: Utterance, delta: str) -> None:
        await self._session.send(TextDeltaEvent(item_id=utterance.id, delta=delta))

    async def on_done(self, utterance: Utterance, text: str, cost: ReadingCost) -> None:
        usage = SecondsUsage(seconds=round(utterance.duration_s, 3))
        await self._session.send(TextCompletedEvent(item_id=utterance.id, transcript=text, usage=usage))

    async def on_failed(self, utterance: Utterance, error: BraidError) -> None:
        if utterance is self._open:
            self._open = None
            self._stop_turn()
        await self._session.send(TextFailedEvent(item_id=utterance.id, error=fault_of(error)))


def fault_of(error: BraidError, event_id: str | None = None) -> EventFault:
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return EventFault(type=kind, code=error.word, message=error.message, param=error.field, event_id=event_id)

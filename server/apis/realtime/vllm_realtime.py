"""vLLM's events: `session.update`, appended sound, and a commit that starts or ends an utterance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import StrictBool, StrictStr

from pipelines.base.errors import BraidError, NotFound, RequestError
from server.apis.realtime.client_events import UNKNOWN_EVENT, AppendEvent, ClientEvent, checked
from server.apis.realtime.openai_session_fields import SessionState
from server.apis.realtime.pcm import PcmReader
from server.apis.realtime.realtime_session import RealtimeSession
from server.apis.realtime.utterance import Utterance
from server.apis.realtime.window_reader import ReadingCost, SpeechChoice
from server.schema.reply_models import Reply, Usage

PAUSE_S = 1.0
"""Sound that came before its commit ends after this time without more, unless `final` ends it before."""
NOT_VALIDATED = "Model not validated. Make sure to validate the model by sending a session.update event."
PROCESSING_ERROR = "processing_error"


class ModelUpdate(ClientEvent):
    model: StrictStr


class CommitEvent(ClientEvent):
    final: StrictBool | None = None


class TranscriptionDelta(Reply):
    type: Literal["transcription.delta"] = "transcription.delta"
    delta: str


class TranscriptionDone(Reply):
    type: Literal["transcription.done"] = "transcription.done"
    text: str
    usage: Usage


class PlainErrorEvent(Reply):
    type: Literal["error"] = "error"
    error: str
    code: str


class VllmRealtime:
    """One socket of a client of vLLM's.  Sound is at 16,000 samples a second."""

    talks = False

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._pcm = PcmReader()
        self._choice: SpeechChoice | None = None
        self._utterance = session.new_utterance()
        self._is_started = False
        self._pause: asyncio.TimerHandle | None = None

    @property
    def has_sound(self) -> bool:
        return self._is_started or self._utterance.num_samples > 0

    async def take(self, event: dict[str, Any]) -> None:
        """Raises RequestError and other errors of requests."""
        kind = event.get("type")
        handle = HANDLERS.get(kind) if isinstance(kind, str) else None
        if handle is None:
            raise RequestError(f"Unknown event type: {str(kind)[:128]}", "type", word=UNKNOWN_EVENT)
        await handle(self, event)

    @property
    def is_busy(self) -> bool:
        """Text that is still to come is the session's own."""
        return False

    def shown(self) -> dict[str, Any]:
        """What clients of OpenAI's read in the first event; an update of theirs changes the kind."""
        return {"id": self._session.id, **SessionState().shown()}

    async def open(self) -> None:
        """Nothing has to be prepared."""

    def close(self) -> None:
        self._stop_pause()

    async def report(self, error: BraidError, event: dict[str, Any]) -> None:
        code = "model_not_found" if isinstance(error, NotFound) else error.word or PROCESSING_ERROR
        await self._session.send(PlainErrorEvent(type="error", error=error.message, code=code))

    # --- events of the client

    async def _update(self, event: dict[str, Any]) -> None:
        model = checked(ModelUpdate, event).model
        self._choice = SpeechChoice(await self._session.check_model(model))

    async def _append(self, event: dict[str, Any]) -> None:
        samples = await self._session.samples(self._pcm, checked(AppendEvent, event).audio)
        self._utterance.append(samples)
        if self._pause is not None:
            self._end_after_pause()

    async def _commit(self, event: dict[str, Any]) -> None:
        final = checked(CommitEvent, event).final
        if not self._is_started:
            choice = await self._chosen()
            self._session.start(self._utterance, choice, self)
            self._is_started = True
            if not final and self._utterance.num_samples:
                self._end_after_pause()
        if final:
            self._end()

    async def _chosen(self) -> SpeechChoice:
        """The model of `session.update`, else the only one that there is."""
        if self._choice is None:
            name = self._session.default_model
            if name is None:
                raise RequestError(NOT_VALIDATED, word="model_not_validated")
            self._choice = SpeechChoice(await self._session.check_model(name))
        return self._choice

    def _end(self) -> None:
        """The utterance ends; what is appended from now on belongs to the next one."""
        self._stop_pause()
        self._utterance.end()
        self._utterance, self._is_started = self._session.new_utterance(), False

    def _end_after_pause(self) -> None:
        self._stop_pause()
        self._pause = asyncio.get_running_loop().call_later(PAUSE_S, self._end)

    def _stop_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    # --- the text as it comes

    async def on_delta(self, utterance: Utterance, delta: str) -> None:
        await self._session.send(TranscriptionDelta(type="transcription.delta", delta=delta))

    async def on_done(self, utterance: Utterance, text: str, cost: ReadingCost) -> None:
        usage = Usage(
            prompt_tokens=cost.num_prompt,
            total_tokens=cost.num_prompt + cost.num_tokens,
            completion_tokens=cost.num_tokens,
        )
        await self._session.send(TranscriptionDone(type="transcription.done", text=text, usage=usage))

    async def on_failed(self, utterance: Utterance, error: BraidError) -> None:
        if utterance is self._utterance:
            self._end()
        await self.report(error, {})


HANDLERS: dict[str, Callable[[VllmRealtime, dict[str, Any]], Awaitable[None]]] = {
    "session.update": VllmRealtime._update,
    "input_audio_buffer.append": VllmRealtime._append,
    "input_audio_buffer.commit": VllmRealtime._commit,
}

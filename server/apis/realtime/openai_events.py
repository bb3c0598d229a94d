"""The events that OpenAI's clients get; fields with a type alone have the same value in each event."""

from __future__ import annotations

import secrets
from typing import Any, Literal

from pydantic import Field

from server.schema.reply_models import Reply


def new_event_id() -> str:
    return f"event_{secrets.token_hex(12)}"


class OpenAIEvent(Reply):
    """An event of the server; `type` is given where an event has several."""

    event_id: str = Field(default_factory=new_event_id)

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()


class SessionEvent(OpenAIEvent):
    """`session.created` has also what vLLM's clients read in it."""

    type: Literal["session.created", "session.updated", "transcription_session.updated"]
    session: dict[str, Any]


class SessionCreatedEvent(SessionEvent):
    id: str
    created: int


class BufferClearedEvent(OpenAIEvent):
    type: Literal["input_audio_buffer.cleared"] = "input_audio_buffer.cleared"


class SpeechStartedEvent(OpenAIEvent):
    type: Literal["input_audio_buffer.speech_started"] = "input_audio_buffer.speech_started"
    audio_start_ms: int
    item_id: str


class SpeechStoppedEvent(OpenAIEvent):
    type: Literal["input_audio_buffer.speech_stopped"] = "input_audio_buffer.speech_stopped"
    audio_end_ms: int
    item_id: str


class CommittedEvent(OpenAIEvent):
    type: Literal["input_audio_buffer.committed"] = "input_audio_buffer.committed"
    previous_item_id: str | None
    item_id: str


class SpokenContent(Reply):
    type: Literal["input_audio"] = "input_audio"
    transcript: str | None = None


class SpokenItem(Reply):
    id: str
    type: Literal["message"] = "message"
    object: Literal["realtime.item"] = "realtime.item"
    status: Literal["completed"] = "completed"
    role: Literal["user"] = "user"
    content: list[SpokenContent] = Field(default_factory=lambda: [SpokenContent()])


class ItemEvent(OpenAIEvent):
    """`created` is the older name of `added`."""

    type: Literal["conversation.item.created", "conversation.item.added", "conversation.item.done"]
    previous_item_id: str | None
    item: SpokenItem


class TextDeltaEvent(OpenAIEvent):
    type: Literal["conversation.item.input_audio_transcription.delta"] = (
        "conversation.item.input_audio_transcription.delta"
    )
    item_id: str
    content_index: int = 0
    delta: str


class SecondsUsage(Reply):
    type: Literal["duration"] = "duration"
    seconds: float


class TextCompletedEvent(OpenAIEvent):
    type: Literal["conversation.item.input_audio_transcription.completed"] = (
        "conversation.item.input_audio_transcription.completed"
    )
    item_id: str
    content_index: int = 0
    transcript: str
    usage: SecondsUsage


class EventFault(Reply):
    type: str
    code: str | None
    message: str
    param: str | None
    event_id: str | None = None


class TextFailedEvent(OpenAIEvent):
    type: Literal["conversation.item.input_audio_transcription.failed"] = (
        "conversation.item.input_audio_transcription.failed"
    )
    item_id: str
    content_index: int = 0
    error: EventFault


class FaultEvent(OpenAIEvent):
    type: Literal["error"] = "error"
    error: EventFault

"""The fields of OpenAI's `session.update` and `transcription_session.update`: what is honoured or refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StrictInt, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.field_types import Items, plain_error
from server.apis.realtime.client_events import ClientEvent
from server.apis.realtime.loudness import THRESHOLD
from server.apis.realtime.window_reader import SpeechChoice

RATE = 24_000
"""OpenAI's rate; a client may name another one."""


def refuse(text: str) -> BeforeValidator:
    """For a field that may only have a value that means nothing."""

    def check(value: Any) -> Any:
        if value:
            raise plain_error(text)
        return value

    return BeforeValidator(check)


NoKeywords = Annotated[Any, refuse("`keywords` are not supported: write them into `prompt`")]
NoInclude = Annotated[Any, refuse("`include` must be empty: log-probabilities of live text are not sent")]


class SessionFields(DeferredModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class SoundFormat(SessionFields):
    """`audio.input.format`."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Annotated[StrictInt, Field(ge=8_000, le=48_000)] = RATE


class TranscriptionFields(SessionFields):
    """What the text shall be."""

    model: StrictStr | None = None
    language: StrictStr | None = None
    languages: Items[StrictStr] | None = None
    prompt: StrictStr | None = None
    keywords: NoKeywords = None


class TurnFields(SessionFields):
    """How the server finds out where speech ends; whether a response follows means nothing here."""

    type: Literal["server_vad"] = "server_vad"
    threshold: Annotated[float, Field(ge=0, le=1)] = THRESHOLD
    prefix_padding_ms: Annotated[StrictInt, Field(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[StrictInt, Field(ge=20, le=30_000)] = 500


class InputFields(SessionFields):
    format: SoundFormat | None = None
    transcription: TranscriptionFields | None = None
    turn_detection: TurnFields | None = None


class AudioFields(SessionFields):
    input: InputFields | None = None


class TranscriptionSessionFields(SessionFields):
    """`session` of `session.update`."""

    type: Literal["transcription"]
    audio: AudioFields | None = None
    include: NoInclude = None


class OlderSessionFields(SessionFields):
    """`session` of `transcription_session.update`."""

    input_audio_format: Literal["pcm16"] = "pcm16"
    input_audio_transcription: TranscriptionFields | None = None
    turn_detection: TurnFields | None = None
    include: NoInclude = None


class SessionUpdate(ClientEvent):
    session: TranscriptionSessionFields


class OlderSessionUpdate(ClientEvent):
    session: OlderSessionFields


@dataclass(slots=True)
class SessionState:
    """What holds now.  Without `turns` the client ends its speech itself."""

    rate: int = RATE
    transcription: TranscriptionFields = field(default_factory=TranscriptionFields)
    turns: TurnFields | None = field(default_factory=TurnFields)

    def update(self, fields: TranscriptionSessionFields | OlderSessionFields) -> SessionState:
        """The state after an update: what it does not name stays."""
        if isinstance(fields, OlderSessionFields):
            changes = InputFields.model_construct(
                fields.model_fields_set & {"turn_detection"},
                transcription=fields.input_audio_transcription,
                turn_detection=fields.turn_detection,
            )
        else:
            changes = (fields.audio and fields.audio.input) or InputFields()
        state = SessionState(self.rate, self.transcription, self.turns)
        if changes.format is not None:
            state.rate = changes.format.rate
        if changes.transcription is not None:
            known, new = self.transcription, changes.transcription
            state.transcription = known.model_copy(update=new.model_dump(exclude_unset=True))
        if "turn_detection" in changes.model_fields_set:
            state.turns = changes.turn_detection
        return state

    def choice(self, model: str) -> SpeechChoice:
        asked = self.transcription
        language = asked.language.lower() if asked.language else None
        return SpeechChoice(model, language, list(asked.languages or []), asked.prompt or "")

    def shown(self) -> dict[str, Any]:
        """`session` of `session.created` and `session.updated`."""
        return {
            "type": "transcription",
            "object": "realtime.transcription_session",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": self.rate},
                    "transcription": self.transcription.model_dump(exclude_none=True) or None,
                    "noise_reduction": None,
                    "turn_detection": self.turns and self.turns.model_dump(),
                }
            },
            "include": None,
        }

    def shown_older(self) -> dict[str, Any]:
        """`session` of `transcription_session.updated`."""
        return {
            "object": "realtime.transcription_session",
            "input_audio_format": "pcm16",
            "input_audio_transcription": self.transcription.model_dump(exclude_none=True) or None,
            "input_audio_noise_reduction": None,
            "turn_detection": self.turns and self.turns.model_dump(),
        }

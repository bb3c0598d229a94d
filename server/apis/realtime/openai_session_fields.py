"""The fields of OpenAI's `session.update` and `transcription_session.update`: what is honoured or refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.field_types import Items, plain_error
from server.apis.realtime.client_events import ClientEvent
from server.apis.realtime.loudness import THRESHOLD
from server.apis.realtime.pcm import OLDER_KINDS, PCM, TELEPHONE_RATE, Kind, OlderKind, SoundForm
from server.apis.realtime.window_reader import SpeechChoice

RATE = 24_000
"""OpenAI's rate; a client may name another one."""
OPENAIS_FORM = SoundForm(PCM, RATE)
Eagerness = Literal["low", "medium", "high", "auto"]
SILENCES_MS: dict[Eagerness, int] = {"low": 8_000, "medium": 4_000, "high": 2_000, "auto": 4_000}
"""OpenAI's longest waits for the end of a turn, by `eagerness`."""


def refuse(text: str) -> BeforeValidator:
    """A validator for a field of which only empty values are accepted; it raises `text` for any other."""

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
    """`audio.input.format`; G.711 has its own rate."""

    type: Kind = PCM
    rate: Annotated[StrictInt, Field(ge=8_000, le=48_000)] | None = None

    @model_validator(mode="after")
    def _check_rate(self) -> SoundFormat:
        if self.type != PCM and self.rate not in (None, TELEPHONE_RATE):
            raise plain_error(f"`rate` of {self.type} is {TELEPHONE_RATE}")
        return self

    @property
    def form(self) -> SoundForm:
        return SoundForm(self.type, self.rate or (RATE if self.type == PCM else TELEPHONE_RATE))


class TranscriptionFields(SessionFields):
    """What the text shall be."""

    model: StrictStr | None = None
    language: StrictStr | None = None
    languages: Items[StrictStr] | None = None
    prompt: StrictStr | None = None
    keywords: NoKeywords = None


class TurnFields(SessionFields):
    """How the server finds out where speech ends; whether a response follows means nothing here.

    Speech is found by its energy in either type.  That of `semantic_vad` ends after the silence after which
    OpenAI's ends at the latest.
    """

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: Annotated[float, Field(ge=0, le=1)] = THRESHOLD
    prefix_padding_ms: Annotated[StrictInt, Field(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[StrictInt, Field(ge=20, le=30_000)] = 500
    eagerness: Eagerness | None = None

    @model_validator(mode="after")
    def _check_type(self) -> TurnFields:
        if self.type == "server_vad" and self.eagerness is not None:
            raise plain_error("`eagerness` is of `semantic_vad`: set `silence_duration_ms`")
        if self.type == "semantic_vad" and "silence_duration_ms" in self.model_fields_set:
            raise plain_error("`silence_duration_ms` is of `server_vad`: set `eagerness`")
        return self

    @property
    def silence_ms(self) -> int:
        """Milliseconds of silence that end a turn."""
        if self.type == "server_vad":
            return self.silence_duration_ms
        return SILENCES_MS[self.eagerness or "auto"]

    def shown(self) -> dict[str, Any]:
        """The fields that the type has, and those that were given, as clients see them."""
        if self.type == "server_vad":
            return self.model_dump(exclude_none=True)
        energy = {"threshold", "prefix_padding_ms", "silence_duration_ms"} - self.model_fields_set
        return self.model_dump(exclude_none=True, exclude=energy) | {"eagerness": self.eagerness or "auto"}


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

    input_audio_format: OlderKind = "pcm16"
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

    form: SoundForm = OPENAIS_FORM
    transcription: TranscriptionFields = field(default_factory=TranscriptionFields)
    turns: TurnFields | None = field(default_factory=TurnFields)

    def update(self, fields: TranscriptionSessionFields | OlderSessionFields) -> SessionState:
        """The state after an update: what it does not name stays."""
        if isinstance(fields, OlderSessionFields):
            named = "input_audio_format" in fields.model_fields_set
            changes = InputFields.model_construct(
                fields.model_fields_set & {"turn_detection"},
                format=SoundFormat(type=OLDER_KINDS[fields.input_audio_format]) if named else None,
                transcription=fields.input_audio_transcription,
                turn_detection=fields.turn_detection,
            )
        else:
            changes = (fields.audio and fields.audio.input) or InputFields()
        state = SessionState(self.form, self.transcription, self.turns)
        if changes.format is not None:
            state.form = changes.format.form
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
                    "format": self.form.shown,
                    "transcription": self.transcription.model_dump(exclude_none=True) or None,
                    "noise_reduction": None,
                    "turn_detection": self.turns and self.turns.shown(),
                }
            },
            "include": None,
        }

    def shown_older(self) -> dict[str, Any]:
        """`session` of `transcription_session.updated`."""
        return {
            "object": "realtime.transcription_session",
            "input_audio_format": self.form.shown_older,
            "input_audio_transcription": self.transcription.model_dump(exclude_none=True) or None,
            "input_audio_noise_reduction": None,
            "turn_detection": self.turns and self.turns.shown(),
        }

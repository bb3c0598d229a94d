"""The fields of a conversation's session and of its responses: what is honoured or refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.field_types import Items, field_error
from pipelines.values.tasks import SPEEDS
from server.apis.realtime.client_events import ClientEvent
from server.apis.realtime.openai_session_fields import (
    OPENAIS_FORM,
    InputFields,
    NoInclude,
    SessionFields,
    SessionState,
    SoundFormat,
    TranscriptionFields,
    TurnFields,
    refuse,
)
from server.apis.realtime.pcm import OLDER_KINDS, SoundForm

MAX_INSTRUCTIONS = 1 << 16
"""Characters of a session's instructions."""
MAX_OUTPUT_TOKENS = 1 << 20
Modality = Literal["text", "audio"]


def _one_modality(value: Any) -> Any:
    """`audio` has its text beside it, so that both together are the same."""
    if isinstance(value, list) and len(value) == 2 and set(value) == {"text", "audio"}:
        return ["audio"]
    return value


def _num_output(value: Any) -> Any:
    if value not in (None, "inf") and not (type(value) is int and 1 <= value <= MAX_OUTPUT_TOKENS):
        raise field_error(f'must be "inf" or an integer from 1 to {MAX_OUTPUT_TOKENS}')
    return value


Modalities = Annotated[list[Modality], Field(min_length=1, max_length=1), BeforeValidator(_one_modality)]
"""What a response is made of."""
Instructions = Annotated[StrictStr, Field(max_length=MAX_INSTRUCTIONS)]
NumOutput = Annotated[Any, BeforeValidator(_num_output)]
Speed = Annotated[float, Field(ge=SPEEDS[0], le=SPEEDS[1])]
Temperature = Annotated[float, Field(ge=0, le=2)]
NoPrompt = Annotated[Any, refuse("`prompt` names a stored prompt, and none are stored: use `instructions`")]
NoReasoning = Annotated[Any, refuse("`reasoning` is not supported: the model's graph says how it reasons")]
NoTimeout = Annotated[Any, refuse("`idle_timeout_ms` is not supported: send `response.create`")]
Tools = Items[dict[str, Any]]


class VoiceId(DeferredModel):
    """A voice by its id, as newer clients write it."""

    id: StrictStr


class ConversationTurnFields(TurnFields):
    """How the server finds turns, and what follows: a response, and the end of one that runs."""

    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout_ms: NoTimeout = None


class ConversationInputFields(InputFields):
    turn_detection: ConversationTurnFields | None = None


class OutputFields(SessionFields):
    """`audio.output`: how a response sounds."""

    format: SoundFormat | None = None
    voice: StrictStr | VoiceId | None = None
    speed: Speed | None = None

    @property
    def voice_name(self) -> str | None:
        return self.voice.id if isinstance(self.voice, VoiceId) else self.voice


class ConversationAudioFields(SessionFields):
    input: ConversationInputFields | None = None
    output: OutputFields | None = None


class ReplyFields(SessionFields):
    """What a session and one of its responses may set alike; null and nothing are the same."""

    output_modalities: Modalities | None = None
    instructions: Instructions | None = None
    max_output_tokens: NumOutput | None = None
    temperature: Temperature | None = None  # of the beta
    tools: Tools | None = None
    tool_choice: Any = None
    audio: ConversationAudioFields | None = None
    prompt: NoPrompt = None
    reasoning: NoReasoning = None


class ConversationFields(ReplyFields):
    """`session` of `session.update`; `tracing` has no effect here."""

    type: Literal["realtime"] = "realtime"
    model: StrictStr | None = None
    truncation: Literal["auto", "disabled"] | None = None
    include: NoInclude = None


class ResponseFields(ReplyFields):
    """`response` of `response.create`."""

    conversation: Literal["auto", "none"] = "auto"
    input: Items[dict[str, Any]] | None = None
    metadata: dict[StrictStr, StrictStr] | None = None

    @model_validator(mode="before")
    @classmethod
    def _in_newer_words(cls, values: Any) -> Any:
        return newer(values) if isinstance(values, dict) else values


class ConversationUpdate(ClientEvent):
    session: ConversationFields

    @model_validator(mode="before")
    @classmethod
    def _in_newer_words(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("session"), dict):
            return values | {"session": newer(values["session"])}
        return values


class ResponseCreateEvent(ClientEvent):
    response: ResponseFields | None = None


OLDER_NAMES = {
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "output_audio_format": ("audio", "output", "format"),
    "input_audio_format": ("audio", "input", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "turn_detection": ("audio", "input", "turn_detection"),
}
"""Field of the beta → its place today."""


def newer(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields under today's names, where they have those of the beta."""
    renamed = {name: value for name, value in fields.items() if name not in OLDER_NAMES}
    for name in OLDER_NAMES.keys() & fields.keys():
        *path, last = OLDER_NAMES[name]
        place = renamed
        for step in path:
            place[step] = dict(place.get(step) or {})
            place = place[step]
        value = fields[name]
        if name.endswith("_format") and isinstance(value, str):
            value = {"type": OLDER_KINDS.get(value, value)}
        place.setdefault(last, value)
    return renamed


@dataclass(slots=True)
class ReplySettings:
    """How a response is made.  `modality` None: sound where the model's graph speaks, else text."""

    modality: Modality | None = None
    instructions: str = ""
    max_output_tokens: int | None = None
    temperature: float | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_choice: Any = "auto"
    form: SoundForm = OPENAIS_FORM  # of its sound
    voice: str | None = None
    speed: float = 1.0

    @property
    def shown_sound(self) -> dict[str, Any]:
        """How a response sounds, as clients see it."""
        return {"format": self.form.shown, "voice": self.shown_voice}

    @property
    def shown_voice(self) -> str:
        return self.voice or "alloy"

    @property
    def shown_max_tokens(self) -> int | str:
        return self.max_output_tokens or "inf"

    def made_of(self, speaks: bool) -> Modality:
        """What a response is made of; `speaks`: the model's graph does."""
        return self.modality or ("audio" if speaks else "text")

    def changed(self, fields: ReplyFields) -> ReplySettings:
        """The settings after an update: what it does not name stays."""
        wanted = {name: getattr(fields, name) for name in fields.model_fields_set}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        named = ("instructions", "temperature", "tools", "tool_choice")
        changes: dict[str, Any] = {name: wanted[name] for name in named if name in wanted}
        if "output_modalities" in wanted:
            changes["modality"] = wanted["output_modalities"][0]
        if "max_output_tokens" in wanted:
            most = wanted["max_output_tokens"]
            changes["max_output_tokens"] = None if most == "inf" else most
        output = fields.audio.output if fields.audio is not None else None
        if output is not None:
            if output.format is not None:
                changes["form"] = output.format.form
            if output.voice is not None:
                changes["voice"] = output.voice_name
            if output.speed is not None:
                changes["speed"] = output.speed
        return replace(self, **changes)


@dataclass(slots=True)
class ConversationState(SessionState):
    """What holds now.  `transcribes`: the client wants to see what was said; `truncates`: where a
    conversation is too long for the model, its oldest turns are left out.
    """

    turns: TurnFields | None = field(default_factory=ConversationTurnFields)
    reply: ReplySettings = field(default_factory=ReplySettings)
    transcribes: bool = False
    truncates: bool = True

    def changed(self, fields: ConversationFields) -> ConversationState:
        """The state after an update: what it does not name stays."""
        changes = (fields.audio and fields.audio.input) or ConversationInputFields()
        state = replace(self, reply=self.reply.changed(fields))
        if changes.format is not None:
            state.form = changes.format.form
        if "transcription" in changes.model_fields_set:
            wanted = changes.transcription
            state.transcribes = wanted is not None
            known = self.transcription if wanted is not None else TranscriptionFields()
            new = wanted.model_dump(exclude_unset=True) if wanted is not None else {}
            state.transcription = known.model_copy(update=new)
        if "turn_detection" in changes.model_fields_set:
            state.turns = changes.turn_detection
        if fields.truncation is not None:
            state.truncates = fields.truncation == "auto"
        return state

    @property
    def responds(self) -> bool:
        """Whether a turn that the server finds is followed by a response."""
        return isinstance(self.turns, ConversationTurnFields) and self.turns.create_response

    @property
    def interrupts(self) -> bool:
        """Whether speech ends a response that runs."""
        return isinstance(self.turns, ConversationTurnFields) and self.turns.interrupt_response

    def shown_with(self, model: str | None, speaks: bool) -> dict[str, Any]:
        """`session` of `session.created` and `session.updated`."""
        reply, shown = self.reply, self.shown()
        shown["audio"]["input"]["transcription"] = self._shown_transcription()
        shown["audio"]["output"] = reply.shown_sound | {"speed": reply.speed}
        return shown | {
            "type": "realtime",
            "object": "realtime.session",
            "model": model,
            "output_modalities": [reply.made_of(speaks)],
            "instructions": reply.instructions,
            "tools": reply.tools,
            "tool_choice": reply.tool_choice,
            "max_output_tokens": reply.shown_max_tokens,
            "truncation": "auto" if self.truncates else "disabled",
            "tracing": None,
            "prompt": None,
        }

    def shown_older_with(self, model: str | None, speaks: bool) -> dict[str, Any]:
        """`session` in the words of the beta."""
        reply = self.reply
        return {
            "object": "realtime.session",
            "model": model,
            "modalities": ["text"] if reply.made_of(speaks) == "text" else ["text", "audio"],
            "instructions": reply.instructions,
            "voice": reply.shown_voice,
            "speed": reply.speed,
            "input_audio_format": self.form.shown_older,
            "output_audio_format": reply.form.shown_older,
            "input_audio_transcription": self._shown_transcription(),
            "turn_detection": self.turns and self.turns.shown(),
            "tools": reply.tools,
            "tool_choice": reply.tool_choice,
            "temperature": reply.temperature or 0.8,
            "max_response_output_tokens": reply.shown_max_tokens,
        }

    def _shown_transcription(self) -> dict[str, Any] | None:
        return self.transcription.model_dump(exclude_none=True) if self.transcribes else None

"""The fields of audio/speech.  Every declared field is honoured; the tables below list others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.field_types import Number, check
from pipelines.requests.fields.known_fields import Refused, check_fields
from pipelines.values.tasks import SPEEDS
from server.apis.voice.encoders import FormatName

MAX_CHARS = 4096
"""The most characters of a text, as OpenAI bounds it."""
REFUSED: dict[str, Refused] = {
    "instructions": Refused("voices speak in one way; choose another `voice` or `speed`", ("",)),
    "ref_audio": Refused("voices are not made from recordings; use `voice`", ("",)),
}
"""Fields that a request may carry only with a neutral value."""
IGNORED: dict[str, str] = {
    "stream": "sound is always sent while it is made; `stream_format` chooses its form",
}
"""Field → why it is accepted without effect."""

SLOWEST, FASTEST = SPEEDS
OUTSIDE = f"{{name}} must be in [{SLOWEST:g}, {FASTEST:g}], got {{got}}."
Speed = Annotated[Number, check(lambda s: SLOWEST <= s <= FASTEST, OUTSIDE)]
SpokenText = Annotated[
    StrictStr,
    check(lambda text: text.strip(), "`{name}` must not be empty"),
    check(lambda text: len(text) <= MAX_CHARS, f"`{{name}}` may have {MAX_CHARS} characters at most"),
]


class VoiceName(DeferredModel):
    """A voice by its id, as OpenAI's newer clients write it."""

    model_config = ConfigDict(extra="ignore")

    id: StrictStr


class SpeakRequest(DeferredModel):
    """A text → sound.  `response_format` None: that of the path."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[Mapping[str, Refused]] = REFUSED
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    model: StrictStr | None = None
    input: SpokenText
    voice: StrictStr | VoiceName | None = None
    response_format: FormatName | None = None
    speed: Speed = 1.0
    stream_format: Literal["audio", "sse"] | None = None
    language: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if value is not None}

    @model_validator(mode="after")
    def _check(self) -> SpeakRequest:
        """Raises RequestError."""
        if self.model_extra:
            check_fields(self.model_extra, type(self).model_fields, self.refused, self.ignored)
        return self

    @property
    def voice_name(self) -> str | None:
        return self.voice.id if isinstance(self.voice, VoiceName) else self.voice

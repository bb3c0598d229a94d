"""Parts of a message that hold a sound: OpenAI's `input_audio`, and vLLM's `audio_url`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import AlsoAccepts, field_error
from pipelines.requests.fields.known_fields import IGNORED_IN_PARTS, check_fields
from pipelines.values.tasks import SoundInput

SOUND_PARTS = ("input_audio", "audio_url")
"""Types of parts that hold a sound, each in the field of its name."""
PART_FIELDS = ("type", "text", "refusal", "image_url", *SOUND_PARTS, "uuid")


def _audio_url(value: Any) -> Any:
    if isinstance(value, str):
        return {"url": value}
    if value is not None and not isinstance(value, dict):
        raise field_error(f"must be an object with a `url`, got {quoted(value)}")
    return value


class AudioUrl(DeferredModel):
    """The URL of a sound."""

    model_config = ConfigDict(extra="allow")
    url: StrictStr | None = None


class SoundFile(DeferredModel):
    """A sound file in base64.  What it is, its own bytes say; `format` is the client's name for that."""

    model_config = ConfigDict(extra="allow")
    data: StrictStr | None = None
    format: StrictStr | None = None


GivenSound = Annotated[AudioUrl | None, BeforeValidator(_audio_url), AlsoAccepts(type="string")]
"""An object with a `url`, or the URL itself."""


def sound_of(
    kind: str, sound: AudioUrl | SoundFile | None, others: Mapping[str, Any], where: str
) -> SoundInput:
    """The sound of a part of type `kind`; `others` are the part's undeclared fields.

    Raises RequestError naming `where`.
    """
    at = f"{where}.{kind}"
    check_fields(others, PART_FIELDS, ignored=IGNORED_IN_PARTS, where=f"{where}.")
    if sound is None:
        raise RequestError(f"`{at}` is required in a part of type `{kind}`", field=at)
    check_fields(sound.model_extra or {}, type(sound).model_fields, where=f"{at}.")
    if isinstance(sound, AudioUrl):
        return SoundInput(_given(sound.url, f"{at}.url"), kind, where)
    return SoundInput(f"data:;base64,{_given(sound.data, f'{at}.data')}", kind, where)


def _given(value: str | None, field: str) -> str:
    if value is None:
        raise RequestError(f"`{field}` is required", field=field)
    return value

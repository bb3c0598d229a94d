"""What the bodies of Ollama's generate and chat have in common, and how they become a request of Braid's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictStr, ValidationError

from graphs.keep_alive import keep_alive_s
from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.known_fields import NONE, Refused, check_fields
from pipelines.requests.fields.validation import from_validation
from server.apis.ollama.options import most_tokens, read_options

Request = TypeVar("Request", bound=BaseModel)


def _seconds(value: float | str | None) -> float | None:
    return None if value is None else keep_alive_s(value)


KeepAlive = Annotated[float | str | None, AfterValidator(_seconds)]
"""Seconds, or a text with a unit; read, the seconds, infinity for a negative one."""
Level = Literal["low", "medium", "high", "max"]


class ModelBody(DeferredModel):
    """A body that names a model."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    model: StrictStr = Field(min_length=1)


class TextBody(ModelBody):
    """What generate and chat have in common.  Null means: not set."""

    ignored: ClassVar[Mapping[str, str]] = {
        "shift": "a reply ends where the context does",
        "_debug_render_only": "POST /apply-template shows prompts",
    }
    refused: ClassVar[Mapping[str, Refused]] = NONE

    stream: StrictBool | None = None
    format: StrictStr | dict[str, Any] | None = None
    think: StrictBool | Level | None = None
    options: dict[str, Any] | None = None
    keep_alive: KeepAlive = None
    truncate: StrictBool | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[int | None, Field(strict=True)] = None

    @property
    def streams(self) -> bool:
        return self.stream is not False

    @property
    def num_ctx(self) -> int | None:
        """The tokens that prompt and reply may have together, where the client wants fewer than the model."""
        wanted = (self.options or {}).get("num_ctx")
        return wanted if wanted and wanted > 0 else None

    @property
    def loads_only(self) -> bool:
        """Whether there is nothing to reply to: then the model is loaded, or unloaded."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise RequestError for fields that this server does not have, or that are wrong together."""
        check_fields(self.model_extra or {}, type(self).model_fields, self.refused, self.ignored)
        if not 0 <= (self.top_logprobs or 0) <= 20:
            raise RequestError("top_logprobs must be between 0 and 20", field="top_logprobs")

    def shared(self) -> dict[str, Any]:
        """The fields of a request of Braid's that are alike for all texts."""
        chosen = {"model": self.model, "stream": self.streams, **read_options(self.options or {})}
        if self.format:
            chosen["response_format"] = _response_format(self.format)
        return chosen

    @property
    def most_tokens(self) -> int | None:
        return most_tokens(self.options or {})


def _response_format(wanted: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(wanted, dict):
        return {"type": "json_schema", "json_schema": {"name": "format", "schema": wanted}}
    if wanted != "json":
        raise RequestError('invalid format: expected "json" or a JSON schema', field="format")
    return {"type": "json_object"}


def thinking_fields(think: bool | str | None) -> dict[str, Any]:
    """The fields of a chat that switch reasoning on and off."""
    if think is None:
        return {}
    effort = {"reasoning_effort": think} if isinstance(think, str) else {}
    return {"enable_thinking": bool(think), **effort}


def made(kind: type[Request], fields: dict[str, Any]) -> Request:
    """A request of Braid's.  Raises RequestError."""
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        raise from_validation(error) from None

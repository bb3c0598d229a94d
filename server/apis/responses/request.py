"""The request body of POST responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import MissingField, RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import (
    Items,
    NumLogprobs,
    NumTokens,
    RequestId,
    check,
    field_error,
)
from pipelines.requests.fields.known_fields import IGNORED_STREAM_OPTIONS, Options, Refused, check_fields
from server.apis.responses.unsupported_fields import (
    IGNORED,
    IGNORED_INCLUDES,
    IGNORED_REASONING,
    IGNORED_TEXT,
    PASSED,
    REFUSED,
    REFUSED_REASONING,
)

MAX_METADATA = 16
MAX_KEY_CHARS = 64
MAX_VALUE_CHARS = 16 << 10
LOGPROBS = "message.output_text.logprobs"

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def _schema(value: Any) -> Any:
    if not isinstance(value, dict | bool | None):
        raise field_error(f"must be a JSON Schema, got {quoted(value)}")
    return value


class TextFormat(Options):
    """The format of the output text (`text.format`)."""

    where: ClassVar[str] = "text.format"

    type: Literal["text", "json_object", "json_schema"]
    name: StrictStr | None = None
    description: StrictStr | None = None
    schema_: Annotated[Any, BeforeValidator(_schema)] = Field(default=None, alias="schema")
    strict: bool | None = None

    def echo(self) -> dict[str, Any]:
        """The format as the response repeats it."""
        if self.type != "json_schema":
            return {"type": self.type}
        return {
            "type": self.type,
            "name": self.name,
            "schema": self.schema_,
            "description": self.description,
            "strict": bool(self.strict),
        }


class TextSettings(Options):
    where: ClassVar[str] = "text"
    ignored: ClassVar[Mapping[str, str]] = IGNORED_TEXT

    format: TextFormat | None = None


class ReasoningSettings(Options):
    where: ClassVar[str] = "reasoning"
    refused: ClassVar[Mapping[str, Refused]] = REFUSED_REASONING
    ignored: ClassVar[Mapping[str, str]] = IGNORED_REASONING

    effort: Effort | None = None


def _input(value: Any) -> Any:
    if value is not None and not isinstance(value, str | list):
        raise field_error(f"must be a string or a list of items, got {quoted(value)}")
    return value


Metadata = Annotated[
    dict[str, StrictStr],
    check(lambda pairs: len(pairs) <= MAX_METADATA, f"{{name}} may hold {MAX_METADATA} pairs at most."),
    check(
        lambda pairs: all(len(key) <= MAX_KEY_CHARS for key in pairs),
        f"{{name}} keys may have {MAX_KEY_CHARS} characters at most.",
    ),
    check(
        lambda pairs: all(len(value) <= MAX_VALUE_CHARS for value in pairs.values()),
        f"{{name}} values may have {MAX_VALUE_CHARS} characters at most.",
    ),
]


def _includes(values: list[str]) -> list[str]:
    allowed = [LOGPROBS, *IGNORED_INCLUDES]
    bad = [value for value in values if value not in allowed]
    if bad:
        raise field_error(f"holds {quoted(bad[0])}; allowed: {', '.join(allowed)}")
    return values


Includes = Annotated[Items[StrictStr], AfterValidator(_includes)]
Name = Annotated[StrictStr, Field(max_length=512)]


class ResponseRequest(DeferredModel):
    """The body of POST responses.  Null means: not set.  Undeclared fields: `unsupported_fields.py`."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    needs_input: ClassVar[bool] = True

    model: StrictStr | None = None
    input: Annotated[Any, BeforeValidator(_input)] = None
    instructions: StrictStr | None = None
    previous_response_id: StrictStr | None = None
    max_output_tokens: NumTokens | None = None
    top_logprobs: NumLogprobs | None = None
    include: Includes | None = None
    tools: Items[dict[str, Any]] | None = None
    tool_choice: Any = None
    text: TextSettings | None = None
    reasoning: ReasoningSettings | None = None
    truncation: Literal["auto", "disabled"] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    background: bool | None = None
    metadata: Metadata | None = None
    request_id: RequestId | None = None
    max_tool_calls: NumTokens | None = None
    user: Name | None = None
    safety_identifier: Name | None = None
    prompt_cache_key: Name | None = None
    prompt_cache_retention: Name | None = None
    service_tier: (
        Literal["auto", "default", "flex", "scale", "fast", "priority", "standard_only", "ultrafast"] | None
    ) = None

    @property
    def stores(self) -> bool:
        return self.store is not False

    @property
    def wants_logprobs(self) -> bool:
        """Whether `include` or `top_logprobs` requests log-probabilities."""
        return LOGPROBS in (self.include or []) or bool(self.top_logprobs)

    @property
    def format(self) -> TextFormat:
        return (self.text and self.text.format) or TextFormat(type="text")

    def passed(self) -> dict[str, Any]:
        """The fields that are copied to the chat request unchanged."""
        return {name: value for name, value in (self.model_extra or {}).items() if name in PASSED}

    def check(self) -> None:
        """Raise RequestError for unsupported fields and for fields that contradict each other."""
        extra = {name: value for name, value in (self.model_extra or {}).items() if name not in PASSED}
        check_fields(extra, [*type(self).model_fields, *PASSED], REFUSED, IGNORED)
        self._check_stream_options()
        self._check_together()

    def _check_stream_options(self) -> None:
        if self.stream_options is None:
            return
        if not self.stream:
            raise RequestError(
                "Stream options can only be defined when `stream=True`.", field="stream_options"
            )
        check_fields(self.stream_options, [], ignored=IGNORED_STREAM_OPTIONS, where="stream_options.")

    def _check_together(self) -> None:
        if self.input is None and self.needs_input:
            raise MissingField("`input` is required", field="input")
        if self.background and self.store is False:
            raise RequestError("background can only be used when `store` is true", field="background")
        if self.format.type == "json_schema" and self.format.schema_ is None:
            raise RequestError(
                "`text.format.schema` is required in a format of type `json_schema`",
                field="text.format.schema",
            )
        if self.format.type != "text" and (self.model_extra or {}).get("structured_outputs") is not None:
            raise RequestError(
                "Cannot specify both structured_outputs and text.format", field="structured_outputs"
            )


class CompactRequest(ResponseRequest):
    """The body of POST responses/compact: as for POST responses, but nothing of it is stored or streamed."""

    needs_input: ClassVar[bool] = False

    def with_trigger(self) -> ResponseRequest:
        """The request for a response that is a compaction."""
        given = [{"role": "user", "content": self.input}] if isinstance(self.input, str) else self.input or []
        items = [*given, {"type": "compaction_trigger"}]
        update = {"input": items, "store": False, "stream": None, "background": None}
        return self.model_copy(update=update)


class CountInputTokensRequest(ResponseRequest):
    """The body of POST responses/input_tokens: as for POST responses, but `input` is optional."""

    needs_input: ClassVar[bool] = False

"""Options of a reply: thinking, effort and the format of its text."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pipelines.requests.fields.field_types import Whole, check
from pipelines.requests.fields.known_fields import Options

Budget = Annotated[Whole, check(lambda n: n >= 1, "thinking.{name} must be at least 1, got {got}.")]


class ThinkingOption(Options):
    """Whether the model reasons before it replies; without it the chat template decides."""

    where: ClassVar[str] = "thinking"

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Budget | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(Options):
    """The format of the reply's text."""

    where: ClassVar[str] = "output_config.format"

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(Options):
    """The format of the reply, and the effort of reasoning."""

    where: ClassVar[str] = "output_config"
    ignored: ClassVar[dict[str, str]] = {"task_budget": "models here know no budget of a task"}

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


def template_kwargs(thinking: ThinkingOption | None, config: OutputConfig | None) -> dict[str, Any]:
    """Variables for chat templates, which have them by the names and levels that they read."""
    kwargs: dict[str, Any] = {}
    if thinking is not None:
        kwargs["enable_thinking"] = thinking.type != "disabled"
    if config is not None and config.effort is not None:
        kwargs["reasoning_effort"] = config.effort
    return kwargs


def chat_format(config: OutputConfig | None, older: OutputFormat | None) -> dict[str, Any]:
    """The `response_format` of a chat request; `older` is the field of the preview API."""
    requested = config.format if config is not None and config.format is not None else older
    if requested is None:
        return {}
    schema = {"name": "output", "schema": requested.schema_, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}

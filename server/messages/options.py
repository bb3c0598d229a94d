"""How a reply is made: thinking, effort, and what its text must be.  Knows nothing of messages or of HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from server.generation.requests.field_types import Whole, check

Budget = Annotated[Whole, check(lambda n: n >= 1, "thinking.{name} must be at least 1, got {got}.")]


class Thinking(BaseModel):
    """Whether the model thinks before it answers; without it, as its template has it."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Budget | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(BaseModel):
    """What the text of the reply must be."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(BaseModel):
    """How the reply looks, and how hard the model tries."""

    model_config = ConfigDict(extra="forbid")
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


def template_kwargs(thinking: Thinking | None, config: OutputConfig | None) -> dict[str, Any]:
    """What templates read: thinking by the two names that they have for it."""
    kwargs: dict[str, Any] = {}
    if thinking is not None:
        thinks = thinking.type != "disabled"
        kwargs |= {"enable_thinking": thinks, "thinking": thinks}
    if config is not None and config.effort is not None:
        kwargs["reasoning_effort"] = config.effort
    return kwargs


def chat_format(config: OutputConfig | None, older: OutputFormat | None) -> dict[str, Any]:
    """The field of a chat request that says what the text must be; `older` is the field of its preview."""
    asked = config.format if config is not None and config.format is not None else older
    if asked is None:
        return {}
    schema = {"name": "output", "schema": asked.schema_, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}

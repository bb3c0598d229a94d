"""The fields by which a chat request switches reasoning on and off, as variables of its chat template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pipelines.requests.fields.known_fields import Options


class ThinkingSwitch(Options):
    """`thinking` as DeepSeek, GLM and Kimi have it; "auto" and "adaptive" leave it to the template."""

    where: ClassVar[str] = "thinking"
    type: Literal["enabled", "disabled", "auto", "adaptive"]


def thinking_kwargs(
    effort: str | None, thinking: ThinkingSwitch | None, enabled: bool | None
) -> dict[str, Any]:
    """Variables for chat templates, which have them by the names and levels that they read.

    Where the fields disagree, `enable_thinking` takes precedence, then `thinking`, then `reasoning_effort`.
    """
    kwargs: dict[str, Any] = {}
    if effort is not None:
        kwargs |= {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    if thinking is not None and thinking.type in ("enabled", "disabled"):
        kwargs["enable_thinking"] = thinking.type == "enabled"
    if enabled is not None:
        kwargs["enable_thinking"] = enabled
    return kwargs


def with_given(kwargs: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Variables of fields, and those of `chat_template_kwargs`, which take precedence.

    A switch of these by either name replaces that of a field.
    """
    given = given or {}
    switched = "enable_thinking" in given or "thinking" in given
    left = {name: value for name, value in kwargs.items() if not (switched and name == "enable_thinking")}
    return {**left, **given}

"""The fields by which a chat request switches reasoning on and off, as variables of its chat template."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pipelines.requests.fields.known_fields import Options


class ThinkingSwitch(Options):
    """`thinking` as DeepSeek, GLM and Kimi have it; "auto" and "adaptive" leave it to the template."""

    where: ClassVar[str] = "thinking"
    type: Literal["enabled", "disabled", "auto", "adaptive"]


def thinking_kwargs(
    effort: str | None, thinking: ThinkingSwitch | None, enabled: bool | None
) -> dict[str, Any]:
    """Variables for chat templates, of which some read `thinking`.

    Where the fields disagree, `enable_thinking` takes precedence, then `thinking`, then `reasoning_effort`.
    """
    kwargs: dict[str, Any] = {}
    if effort is not None:
        kwargs |= {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    if thinking is not None and thinking.type in ("enabled", "disabled"):
        kwargs |= {"enable_thinking": thinking.type == "enabled", "thinking": thinking.type == "enabled"}
    if enabled is not None:
        kwargs["enable_thinking"] = enabled
    return kwargs

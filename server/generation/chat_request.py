"""The body of chat/completions.  Knows nothing of HTTP or of how a reply looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import StrictBool, StrictStr

from pipelines.errors import RequestError
from server.generation.conversation import Message, Tools, parses_calls
from server.generation.field_types import NumLogprobs, NumTokens
from server.generation.fields import REFUSED, REFUSED_CHAT, Refused
from server.generation.requests import GenerationRequest

OWN_FIELDS = ("messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template")
"""What `chat_template_kwargs` may not hold: these are fields of their own."""


class ChatRequest(GenerationRequest):
    """The body of chat/completions."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_CHAT

    messages: list[Message]
    max_completion_tokens: NumTokens | None = None
    logprobs: StrictBool | None = None
    top_logprobs: NumLogprobs | None = None
    tools: Tools | None = None
    tool_choice: Any = None
    parallel_tool_calls: StrictBool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    include_reasoning: StrictBool | None = None
    add_generation_prompt: StrictBool | None = None
    continue_final_message: StrictBool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[dict[str, StrictStr]] | None = None

    @property
    def num_tokens(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    def alternatives(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def prompts_reply(self) -> bool:
        """Whether the prompt ends with the start of a new reply, or with the message to go on with."""
        if self.add_generation_prompt is None:
            return not self.continue_final_message
        return self.add_generation_prompt

    @property
    def role(self) -> str:
        """Whose message the reply is: the assistant's, or the last one's that it goes on with."""
        return "assistant" if self.prompts_reply else self.messages[-1].role

    @property
    def calls_tools(self) -> bool:
        return parses_calls(self.tool_choice, self.tools)

    def check(self, max_context: int) -> None:
        super().check(max_context)
        if not self.messages:
            raise RequestError(
                "Cannot apply chat template to an empty conversation. Provide at least one message.",
                field="messages",
            )
        if self.continue_final_message and self.add_generation_prompt:
            raise RequestError(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                field="continue_final_message",
            )
        if self.top_logprobs and not self.logprobs:
            raise RequestError(
                "when using `top_logprobs`, `logprobs` must be set to true.", field="top_logprobs"
            )
        if self.logprobs and self.include_reasoning is False:
            raise RequestError(
                "`include_reasoning` cannot be false together with `logprobs`: tokens of the reasoning are "
                "among those reported",
                field="include_reasoning",
            )
        for name in OWN_FIELDS:
            if name in (self.chat_template_kwargs or {}):
                raise RequestError(
                    f"`chat_template_kwargs.{name}` is not allowed: `{name}` is a field of the request",
                    field=f"chat_template_kwargs.{name}",
                )

    def own(self) -> dict[str, Any]:
        return {
            "messages": [message.plain(f"messages.{i}") for i, message in enumerate(self.messages)],
            "tools": [tool.model_dump(exclude_unset=True) for tool in self.tools or []],
            "parse_tools": self.calls_tools,
            "add_generation_prompt": self.prompts_reply,
            "continue_final_message": bool(self.continue_final_message),
            "template_kwargs": self._template_kwargs(),
        }

    def _template_kwargs(self) -> dict[str, Any]:
        kwargs: dict[str, Any] = {}
        if self.reasoning_effort is not None:
            kwargs["reasoning_effort"] = self.reasoning_effort
            kwargs["enable_thinking"] = self.reasoning_effort != "none"
        if self.documents is not None:
            kwargs["documents"] = self.documents
        return kwargs | (self.chat_template_kwargs or {})

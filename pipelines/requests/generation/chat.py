"""The body of chat/completions.  Does not depend on HTTP or on replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import StrictStr

from pipelines.base.errors import MissingField, RequestError
from pipelines.requests.fields.field_types import (
    Budget,
    DocumentFields,
    Items,
    NumLogprobs,
    NumTokens,
    TokenIds,
)
from pipelines.requests.fields.known_fields import REFUSED, REFUSED_CHAT, Refused
from pipelines.requests.generation.conversation import Conversation, goes_on
from pipelines.requests.generation.generation import BaseGenerationRequest
from pipelines.requests.generation.image_parts import check_media_settings, named
from pipelines.requests.generation.prompts import read_ids
from pipelines.requests.generation.thinking import ThinkingSwitch, thinking_kwargs, with_given
from pipelines.requests.generation.tools import ChatToolChoice, Function, Tool, Tools, read_choice
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import Constraint, ImageInput, SoundInput

OWN_FIELDS = ("messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template")
"""Names that `chat_template_kwargs` may not have: they are fields of the request."""


class ChatRequest(BaseGenerationRequest):
    """The body of chat/completions."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_CHAT

    messages: Conversation | None = None
    completion_token_ids: TokenIds | None = None
    max_completion_tokens: NumTokens | None = None
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None
    tools: Tools | None = None
    functions: Items[Function] | None = None
    function_call: Any = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    include_reasoning: bool | None = None
    enable_thinking: bool | None = None
    thinking: ThinkingSwitch | None = None
    thinking_token_budget: Budget | None = None
    reasoning_max_tokens: Budget | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: StrictStr | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    disable_chat_template: bool | None = None
    documents: Items[DocumentFields] | None = None
    return_prompt_text: bool | None = None
    mm_hashes: Items[StrictStr | None] | None = None

    @property
    def shows_images(self) -> bool:
        return any(message.shows_images for message in self.conversation)

    @property
    def images(self) -> list[ImageInput]:
        return named(self._media[0], self.mm_hashes or [])

    @property
    def sounds(self) -> list[SoundInput]:
        return self._media[1]

    @property
    def _media(self) -> tuple[list[ImageInput], list[SoundInput]]:
        images: list[ImageInput] = []
        sounds: list[SoundInput] = []
        for i, message in enumerate(self.conversation):
            if message.shows_images:
                message.plain(f"messages.{i}", images, sounds)
        return images, sounds

    @property
    def num_tokens(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def compiles(self) -> bool:
        """Whether something is compiled, also a chat template or declared tools."""
        return self.chat_template is not None or bool(self.declared) or super().compiles

    def alternatives(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs or self.picks_best else None

    def thinking_budget(self) -> int | None:
        """The smallest budget requested; FastDeploy's field has no effect beside `reasoning_effort`."""
        requested = [self.thinking_token_budget, super().thinking_budget()]
        if self.reasoning_effort is None:
            requested.append(self.reasoning_max_tokens)
        return min((budget for budget in requested if budget is not None and budget >= 0), default=None)

    @property
    def conversation(self) -> list[Any]:
        """The messages; none where the client has put them into token ids."""
        given: list[Any] = self.messages or []
        return [] if given and isinstance(given[0], int) else given

    @property
    def _message_ids(self) -> list[int]:
        """`messages` may be token ids as well."""
        given: list[Any] = self.messages or []
        return given if given and isinstance(given[0], int) else []

    @property
    def continues(self) -> bool:
        """Whether the reply continues the last message: by the field, or by the message's `prefix`."""
        return bool(self.continue_final_message) or goes_on(self.conversation, "messages")

    @property
    def prompts_reply(self) -> bool:
        """Whether the prompt ends with the start of a new reply; else it continues the last message."""
        if self.add_generation_prompt is None:
            return not self.continues
        return self.add_generation_prompt

    @property
    def role(self) -> str:
        """The role of the reply: "assistant", or that of the last message, which the reply continues."""
        if self.conversation and not self.prompts_reply:
            return str(self.conversation[-1].role)
        return "assistant"

    @property
    def echoed(self) -> str:
        """The text that `echo` puts before the reply: the last message, when it has the reply's role."""
        last = self.conversation[-1] if self.echo and self.conversation else None
        if last is None or last.role != self.role:
            return ""
        content = last.plain("messages", [], [])["content"]
        return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)

    @property
    def declared(self) -> list[Tool]:
        """The tools of the request; deprecated functions are tools too."""
        if self.tools is not None or not self.functions:
            return self.tools or []
        return [Tool(type="function", function=function) for function in self.functions]

    @property
    def choice(self) -> ChatToolChoice:
        wanted = self.function_call if self.tool_choice is None and self.functions else self.tool_choice
        return read_choice(wanted, self.declared)

    @property
    def calls_functions(self) -> bool:
        """Whether the client reads calls of deprecated functions, and no tool calls."""
        return bool(self.functions) and self.tools is None

    @property
    def calls_tools(self) -> bool:
        return self.choice.parses

    def check(self, max_context: int) -> None:
        super().check(max_context)
        self._check_messages()
        if self.shows_images:
            self._check_images()
        if self.continues and self.add_generation_prompt:
            raise RequestError(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                field="continue_final_message",
            )
        if self.top_logprobs and not self.logprobs:
            raise RequestError(
                "when using `top_logprobs`, `logprobs` must be set to true.", field="top_logprobs"
            )
        if self.choice.named and super().constraint() is not None and self.response_format is None:
            raise RequestError(
                "You can only either use constraints for structured outputs or tools, not both.",
                field="tool_choice",
            )
        for name in OWN_FIELDS:
            if name in (self.chat_template_kwargs or {}):
                raise RequestError(
                    f"`chat_template_kwargs.{name}` is not allowed: `{name}` is a field of the request",
                    field=f"chat_template_kwargs.{name}",
                )

    def _check_images(self) -> None:
        """What a request with images may not have."""
        check_media_settings(self.model_extra or {})
        for name in ("prompt_token_ids", "disable_chat_template"):
            if getattr(self, name):
                raise RequestError(
                    f"`{name}`: images and sounds have their places by the chat template; leave it out",
                    field=name,
                )

    def _check_messages(self) -> None:
        if self.messages is None and self.prompt_token_ids is None:
            raise MissingField("`messages` is required", field="messages")
        if not self.messages and self.prompt_token_ids is None:
            raise RequestError(
                "Cannot apply chat template to an empty conversation. Provide at least one message.",
                field="messages",
            )
        if self._message_ids and self.prompt_token_ids is not None:
            raise RequestError(
                "`messages` are token ids already; leave `prompt_token_ids` out", field="prompt_token_ids"
            )

    def constraint(self) -> Constraint | None:
        """The constraint of the text; a forced call leaves none, and follows the schema of its tool."""
        found = super().constraint()
        return None if self.choice.forced is not None else found

    def scores_prompt(self) -> int | None:
        """`echo` returns those of the prompt too, with or without `logprobs`, as in vLLM."""
        if self.prompt_logprobs is None and self.echo and not self.stream:
            return self.top_logprobs or 0
        return self.prompt_logprobs

    def own(self) -> dict[str, Any]:
        prompts, choice = self._prompts(), self.choice
        images: list[ImageInput] | None = None if prompts else []
        sounds: list[SoundInput] | None = None if prompts else []
        turns = enumerate(self.conversation)
        messages = [message.plain(f"messages.{i}", images, sounds) for i, message in turns]
        tools = [tool for tool in self.declared if choice.shows(tool.function.name)]
        return {
            "messages": None if prompts else messages,
            "prompts": prompts,
            "images": named(images or [], self.mm_hashes or []),
            "sounds": sounds or [],
            "completion_ids": self.completion_token_ids or [],
            "tools": [tool.model_dump(exclude_unset=True) for tool in tools],
            "parse_tools": choice.parses,
            "tool_choice": choice.forced,
            "parallel_calls": self.parallel_tool_calls is not False,
            "add_generation_prompt": self.prompts_reply,
            "continue_final_message": self.continues,
            "chat_template": self.chat_template,
            "template_kwargs": self._template_kwargs(),
        }

    def _prompts(self) -> list[Prompt]:
        """The prompt where the request has it as text or token ids, without the chat template."""
        if self._message_ids or self.prompt_token_ids is not None:
            where = "messages" if self._message_ids else "prompt_token_ids"
            prompts = read_ids(self._message_ids or self.prompt_token_ids, where)
            if len(prompts) > 1:
                raise RequestError(f"`{where}` must be one list of token ids", field=where)
            return [Prompt(ids=prompts[0])]
        if not self.disable_chat_template:
            return []
        content = self.conversation[0].plain("messages.0")["content"]
        text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
        return [Prompt(text=text)]

    def _template_kwargs(self) -> dict[str, Any]:
        """`chat_template_kwargs` takes precedence over the fields that stand for one of its names."""
        kwargs = thinking_kwargs(self.reasoning_effort, self.thinking, self.enable_thinking)
        if self.documents is not None:
            kwargs["documents"] = self.documents
        return with_given(kwargs, self.chat_template_kwargs)

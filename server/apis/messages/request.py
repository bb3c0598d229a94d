"""The bodies of messages and messages/count_tokens → a chat request.

A declared field is honoured; `unsupported_fields.py` lists the others.  Does not depend on HTTP.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ConfigDict, PrivateAttr, StrictStr, ValidationError

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import Items, NumTokens, Stops, Temperature, TopK, TopP
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.thinking import with_given
from pipelines.values.tasks import ImageInput
from server.apis.messages.blocks import (
    BY_ROLE,
    AnthropicMessage,
    Content,
    chat_messages,
    image_places,
    system_messages,
)
from server.apis.messages.content_builder import MessageContext
from server.apis.messages.documents import read_documents
from server.apis.messages.options import (
    OutputConfig,
    OutputFormat,
    ThinkingOption,
    chat_format,
    template_kwargs,
)
from server.apis.messages.references import show_found_tools
from server.apis.messages.tools import ToolChoice, ToolDeclaration, chat_tools, later_tools
from server.apis.messages.unsupported_fields import IGNORED, REFUSED

Chat = TypeVar("Chat", bound="TranslatedChat")


class MessagesBody(DeferredModel):
    """The fields of messages and count_tokens that become the prompt."""

    model_config = ConfigDict(extra="allow")
    model: StrictStr | None = None
    messages: Items[AnthropicMessage]
    system: Content | None = None
    tools: Items[ToolDeclaration] | None = None
    tool_choice: ToolChoice | None = None
    thinking: ThinkingOption | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def translated(self, kind: type[Chat]) -> Chat:
        self.check()
        try:
            chat = kind.model_validate(self.chat_body())
            chat._image_places = list(image_places(self.messages))
            chat._later_tools = later_tools(self.tools or [])
            return chat
        except ValidationError as error:
            raise from_validation(error) from None

    def check(self) -> None:
        """Raise RequestError for fields that are valid alone but not together."""
        check_fields(self.model_extra or {}, type(self).model_fields, REFUSED, IGNORED)
        if not self.messages:
            raise RequestError("`messages`: at least one message is required", field="messages")
        for i, message in enumerate(self.messages):
            message.check(f"messages.{i}")
        for i, block in enumerate(self.system or []):
            block.check(BY_ROLE["system"], f"system.{i}")

    @property
    def _is_users_turn(self) -> bool:
        return self.messages[-1].role == "assistant"

    @property
    def _final_fault(self) -> str | None:
        """Why no reply can go on with the last message, the assistant's; None: one can."""
        blocks = self.messages[-1].content
        if any(block.type == "tool_use" for block in blocks):
            return "a tool_use block waits for its tool_result"
        texts = [block.text for block in blocks if block.type == "text" and block.text]
        if not texts or not texts[-1].strip():
            return "the last message is the assistant's, so it needs text to go on with"
        return None

    def chat_body(self) -> dict[str, Any]:
        kwargs = template_kwargs(self.thinking, self.output_config)
        tools = chat_tools(self.tools or [], self.tool_choice)
        read_documents(self.messages)
        show_found_tools(self.messages, tools.get("tools", []), later_tools(self.tools or []))
        return {
            "model": self.model,
            "messages": system_messages(self.system or []) + chat_messages(self.messages),
            "add_generation_prompt": not self._is_users_turn,
            "continue_final_message": self._is_users_turn and self._final_fault is None,
            "chat_template_kwargs": with_given(kwargs, self.chat_template_kwargs),
            **tools,
            **chat_format(self.output_config, self.output_format),
        }


class CountRequest(MessagesBody):
    """The body of messages/count_tokens.  It may be a part of a conversation: nothing replies to it."""

    def chat(self) -> TranslatedChat:
        """Makes a chat request of it.  Raises RequestError for what has no equivalent there."""
        return self.translated(TranslatedChat)


class MessagesRequest(MessagesBody):
    """The body of messages."""

    max_tokens: NumTokens
    stop_sequences: Stops | None = None
    stream: bool | None = None
    temperature: Temperature | None = None
    top_k: TopK | None = None
    top_p: TopP | None = None

    def chat(self) -> MessageChat:
        """Makes a chat request of it.  Raises RequestError for what has no equivalent there."""
        chat = self.translated(MessageChat)
        chat._source = self
        return chat

    @property
    def budget(self) -> int | None:
        return self.thinking.budget_tokens if self.thinking is not None else None

    def check(self) -> None:
        super().check()
        if self._is_users_turn and (fault := self._final_fault):
            where = f"messages.{len(self.messages) - 1}"
            raise RequestError(f"`{where}`: {fault}", field=where)
        if self.thinking is not None and self.thinking.type == "enabled" and self.budget is None:
            raise RequestError(
                "`thinking.budget_tokens` is required when thinking is enabled; "
                'or send {"type": "adaptive"}, which has no budget',
                field="thinking.budget_tokens",
            )
        if self.budget is not None and self.budget >= self.max_tokens:
            raise RequestError(
                f"`max_tokens` must be greater than `thinking.budget_tokens`, got {self.max_tokens}",
                field="max_tokens",
            )

    def chat_body(self) -> dict[str, Any]:
        same = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "stream")}
        budget = {"thinking_token_budget": self.budget} if self.budget else {}
        return super().chat_body() | same | budget | {"stop": self.stop_sequences}

    def context(self, reply_id: str, model: str) -> MessageContext:
        thinking = self.thinking
        return MessageContext(
            id=reply_id,
            model=model,
            max_tokens=self.max_tokens,
            parallel_calls=not (self.tool_choice and self.tool_choice.disable_parallel_tool_use),
            reasoning=thinking is None or thinking.type != "disabled",
            names_thinking_only=thinking is not None and thinking.display == "omitted",
        )


class TranslatedChat(ChatRequest):
    """A body of messages as a chat request, whose images are named where the client put them, and some of
    whose tools are shown later.
    """

    _image_places: list[str] = PrivateAttr()
    _later_tools: frozenset[str] = PrivateAttr()

    @property
    def images(self) -> list[ImageInput]:
        return self._placed(super().images)

    def own(self) -> dict[str, Any]:
        found = super().own()
        return found | {"images": self._placed(found["images"]), "later_tools": self._later_tools}

    def _placed(self, images: list[ImageInput]) -> list[ImageInput]:
        places = zip(images, self._image_places, strict=True)
        return [replace(image, kind="image", where=where) for image, where in places]


class MessageChat(TranslatedChat):
    """A messages request as a chat request.

    Its `max_tokens` is an upper bound: more than the context holds is reduced, not refused.
    """

    _source: MessagesRequest = PrivateAttr()

    @property
    def source(self) -> MessagesRequest:
        return self._source

    @property
    def default_max_tokens(self) -> int:  # type: ignore[override]
        return self._source.max_tokens

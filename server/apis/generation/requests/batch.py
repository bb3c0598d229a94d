"""The body of chat/completions/batch: several conversations, one choice for each."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import Items
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.conversation import Conversation

MAX_CONVERSATIONS = 128
ONE_ONLY = (
    "tools",
    "functions",
    "use_beam_search",
    "prompt_token_ids",
    "completion_token_ids",
    "prompt_logprobs",
    "return_prompt_text",
    "echo",
)
"""Fields that a batch cannot have."""


class BatchRequest(ChatRequest):
    """A ChatRequest whose `messages` holds conversations; all other fields apply to each of them."""

    messages: Annotated[Items[Conversation], Field(min_length=1, max_length=MAX_CONVERSATIONS)]  # type: ignore[assignment]

    def conversations(self) -> list[ChatRequest]:
        """A request for each conversation.  Raises RequestError for fields that only one of them can have."""
        for name in ("n", "best_of"):
            if (getattr(self, name) or 1) > 1:
                raise RequestError(
                    f"Batch chat completions do not support `{name} > 1`. Please set `{name}` to 1.",
                    field=name,
                )
        if self.stream:
            raise RequestError(
                "A batch is answered whole; to get a `stream`, send each conversation to chat/completions",
                field="stream",
            )
        for name in ONE_ONLY:
            if getattr(self, name):
                raise RequestError(f"Batch chat completions do not support `{name}`.", field=name)
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        return [
            ChatRequest.model_construct(
                self.model_fields_set, **{**fields, **(self.model_extra or {}), "messages": messages}
            )
            for messages in self.messages
        ]

"""The bodies of vLLM's render: those of chat/completions and completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.completion import CompletionRequest

OFFSETS = "return_token_offsets"


class RenderChatRequest(ChatRequest):
    """A conversation; of its text there are no offsets."""


class RenderCompletionRequest(CompletionRequest):
    """Raw prompts; offsets are places of tokens in a text, in characters."""

    refused: ClassVar[Mapping[str, Refused]] = {
        name: refused for name, refused in CompletionRequest.refused.items() if name != OFFSETS
    }

    return_token_offsets: bool | None = None

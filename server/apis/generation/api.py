"""The paths of chat completions and completions."""

from __future__ import annotations

from server.apis.generation.chat_batch_endpoint import BatchChatEndpoint
from server.apis.generation.chat_endpoint import ChatCompletionsEndpoint
from server.apis.generation.completions_endpoint import CompletionsEndpoint
from server.services.api import Api

API = Api(
    "openai",
    prefixed={
        "/chat/completions": ChatCompletionsEndpoint,
        "/chat/completions/batch": BatchChatEndpoint,
        "/completions": CompletionsEndpoint,
    },
)

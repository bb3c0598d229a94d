"""The paths of DeepSeek's that are not OpenAI's; Continue asks for them below its own prefix too."""

from __future__ import annotations

from server.apis.generation.chat_endpoint import ChatCompletionsEndpoint
from server.apis.generation.completions_endpoint import CompletionsEndpoint
from server.apis.generation.gap_request import GapRequest
from server.services.api import Api


class BetaCompletionsEndpoint(CompletionsEndpoint):
    """POST beta/completions: fills the gap between `prompt` and `suffix`, or continues the prompt."""

    body = GapRequest


API = Api(
    "deepseek",
    root={
        "/beta/completions": BetaCompletionsEndpoint,
        "/beta/chat/completions": ChatCompletionsEndpoint,
    },
    prefixed={"/beta/completions": BetaCompletionsEndpoint},
)

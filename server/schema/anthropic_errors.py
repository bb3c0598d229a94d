"""Errors in Anthropic's shape: {"type": "error", "error": {type, message}}."""

from __future__ import annotations

from typing import Literal

from pipelines.base.errors import BraidError
from server.schema.reply_models import Reply

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    431: "invalid_request_error",
    503: "overloaded_error",
}
"""HTTP status → Anthropic's type; any other is an api_error."""

NAMES = {
    "response_format": "output_config.format",
    "thinking_token_budget": "thinking.budget_tokens",
}
"""Field of a chat request → the field of messages from which it is made."""


class AllFieldsReply(Reply):
    """An object in a reply; fields that are not set are sent too, as null or with their constant."""

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()


class AnthropicErrorDetail(AllFieldsReply):
    type: str
    message: str


class AnthropicErrorReply(AllFieldsReply):
    type: Literal["error"] = "error"
    error: AnthropicErrorDetail


def anthropic_error(error: BraidError) -> AnthropicErrorReply:
    message = error.message
    for ours, theirs in NAMES.items():
        message = message.replace(ours, theirs)
    if error.field and NAMES.get(error.field, error.field) not in message:
        message = f"{NAMES.get(error.field, error.field)}: {message}"
    return AnthropicErrorReply(
        error=AnthropicErrorDetail(type=TYPES.get(error.status, "api_error"), message=message)
    )

"""Errors in Anthropic's shape: {"type": "error", "error": {type, message}, "request_id": the request's}."""

from __future__ import annotations

import re
from typing import Literal

from pipelines.base.errors import BadDocument, BadImage, BraidError, ContextTooLong
from server.schema.reply_models import Reply

ID_HEADER = "request-id"
"""The header in which Anthropic's clients look for the id of a request."""
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

WORDS: dict[type[BraidError], str] = {
    BadImage: "Could not process image",
    BadDocument: "Could not process PDF",
}
"""Error → how Anthropic's text of it begins: a client that reads it leaves these blocks out, and goes on."""
FULL = re.compile(
    r"(?:context length is|cache holds) (?P<most>\d+) tokens.* contains (?:at least )?(?P<got>\d+) input"
)
"""A prompt of as many tokens as the context holds leaves no room for a reply."""
MANY_CHARACTERS = re.compile(
    r"(?P<chars>\d+) input characters.* only (?P<most>\d+) tokens \(at most (?P<max>\d+)"
)


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
    request_id: str | None = None


def anthropic_error(error: BraidError) -> AnthropicErrorReply:
    detail = AnthropicErrorDetail(type=TYPES.get(error.status, "api_error"), message=_message(error))
    return AnthropicErrorReply(error=detail, request_id=error.request_id)


def _message(error: BraidError) -> str:
    """The text of an error, in Anthropic's words where clients look for them."""
    if error.word == ContextTooLong.word and (text := _too_long(error.message)):
        return text
    message = error.message
    for ours, theirs in NAMES.items():
        message = message.replace(ours, theirs)
    if error.field and NAMES.get(error.field, error.field) not in message:
        message = f"{NAMES.get(error.field, error.field)}: {message}"
    words = WORDS.get(type(error))
    return f"{words}: {message}" if words else message


def _too_long(message: str) -> str | None:
    """What a client reads as "shorten the conversation", with at least how many tokens it has."""
    if found := FULL.search(message):
        got, most = int(found["got"]), int(found["most"])
    elif found := MANY_CHARACTERS.search(message):
        most = int(found["most"])
        got = int(found["chars"]) * most // int(found["max"])
    else:
        return None
    return f"prompt is too long: {max(got, most)} tokens > {most - 1} maximum"

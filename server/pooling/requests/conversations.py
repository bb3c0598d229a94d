"""Reads the conversations of a body that may hold one or several."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from pipelines.errors import RequestError
from server.generation.requests.conversation import Message
from server.generation.requests.field_types import Items
from server.http.error_text import quoted
from server.http.errors import from_validation

Messages = Items[dict[str, Any]]


def are_messages(value: Any) -> bool:
    """Whether a value holds one or several conversations rather than texts or token ids."""
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, list) and first:
        first = first[0]
    return isinstance(first, dict)


def read_conversations(value: Any, where: str) -> list[Messages]:
    """Conversations from one list of messages, or several such lists.  Raises RequestError with the field."""
    items = _non_empty_list(value, where)
    if not isinstance(items[0], list):
        return [_conversation(items, where)]
    return [_conversation(each, f"{where}.{i}") for i, each in enumerate(items)]


def _conversation(value: Any, where: str) -> Messages:
    return [_message(item, f"{where}.{i}") for i, item in enumerate(_non_empty_list(value, where))]


def _non_empty_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise RequestError(f"`{where}` must be a list of messages, got {quoted(value)}", field=where)
    if not value:
        raise RequestError(
            "Cannot apply chat template to an empty conversation. Provide at least one message.", field=where
        )
    return value


def _message(item: Any, where: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise RequestError(f"`{where}` must be a message, an object, got {quoted(item)}", field=where)
    try:
        message = Message.model_validate(item)
    except ValidationError as error:
        raise from_validation(error, where) from None
    return message.plain(where)

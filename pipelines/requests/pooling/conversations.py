"""Reads the conversations of a body that may hold one or several."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import Items
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.conversation import Message
from pipelines.requests.generation.image_parts import IMAGE_PARTS
from pipelines.values.tasks import ImageInput

Messages = Items[dict[str, Any]]


def are_messages(value: Any) -> bool:
    """Whether a value holds one or several conversations rather than texts or token ids."""
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, list) and first:
        first = first[0]
    return isinstance(first, dict)


def show_images(value: Any) -> bool:
    """Whether one of several conversations has a part that shows an image; they are not checked yet."""
    conversations = value if isinstance(value, list) else []
    return any(
        isinstance(part, dict) and part.get("type") in IMAGE_PARTS
        for each in conversations
        for message in (each if isinstance(each, list) else [each])
        for part in _parts(message)
    )


def _parts(message: Any) -> list[Any]:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, list) else []


def read_conversations(value: Any, where: str, images: list[ImageInput]) -> list[Messages]:
    """Conversations from one list of messages, or several such lists; their images are put into `images`.

    Raises RequestError with the field.
    """
    items = _non_empty_list(value, where)
    if not isinstance(items[0], list):
        return [_conversation(items, where, images)]
    return [_conversation(each, f"{where}.{i}", images) for i, each in enumerate(items)]


def _conversation(value: Any, where: str, images: list[ImageInput]) -> Messages:
    items = _non_empty_list(value, where)
    return [_message(item, f"{where}.{i}", images) for i, item in enumerate(items)]


def _non_empty_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise RequestError(f"`{where}` must be a list of messages, got {quoted(value)}", field=where)
    if not value:
        raise RequestError(
            "Cannot apply chat template to an empty conversation. Provide at least one message.", field=where
        )
    return value


def _message(item: Any, where: str, images: list[ImageInput]) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise RequestError(f"`{where}` must be a message, an object, got {quoted(item)}", field=where)
    try:
        message = Message.model_validate(item)
    except ValidationError as error:
        raise from_validation(error, where) from None
    if message.prefix:
        raise RequestError(
            f"`{where}.prefix`: no reply continues a message here; see `continue_final_message`",
            field=f"{where}.prefix",
        )
    return message.plain(where, images)

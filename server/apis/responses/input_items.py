"""Checks input items and converts them to the format in which they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.fields.validation import from_validation
from server.apis.responses.item_models import (
    CALLS,
    ITEMS,
    LEFT_OUT,
    InputItem,
    InputLeftOut,
    InputLocalShellOutput,
    InputMessage,
    InputReasoning,
)
from server.apis.responses.unsupported_fields import IGNORED_IN_ITEMS

PART_TYPES = {
    "user": "input_text",
    "system": "input_text",
    "developer": "input_text",
    "assistant": "output_text",
}
"""Role → type of its text parts."""


def read_items(value: Any, find: Callable[[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of a request's `input` as they are stored, each with an id.

    `find(id, where)` returns the item that a reference names.  Raises RequestError with the item's field.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [_to_stored(InputMessage(role="user", content=value), 0)]
    return [_read_item(item, at, find) for at, item in enumerate(value)]


def references(value: Any) -> list[str]:
    """The ids of the items that an `input` refers to."""
    items = value if isinstance(value, list) else []
    return [item["id"] for item in items if isinstance(item, dict) and _kind(item) == "item_reference"]


def _kind(item: dict[str, Any]) -> Any:
    if item.get("type") is not None:
        return item["type"] if item["type"] != "item_reference" or isinstance(item.get("id"), str) else None
    return "message" if "role" in item else "item_reference" if isinstance(item.get("id"), str) else None


def _read_item(item: Any, at: int, find: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    where = f"input.{at}"
    if not isinstance(item, dict):
        raise RequestError(f"`{where}` must be an object, got {quoted(item)}", field=where)
    kind = _kind(item)
    if kind == "item_reference":
        return find(item["id"], where)
    if kind in LEFT_OUT:
        return _to_stored(InputLeftOut.model_validate(item), at)
    model = ITEMS.get(kind) if isinstance(kind, str) else None
    if model is None:
        allowed = ", ".join([*ITEMS, "item_reference"])
        raise RequestError(
            f"`{where}.type`: unknown item type {quoted(item.get('type'))}; allowed: {allowed}",
            field=f"{where}.type",
        )
    try:
        read = model.model_validate({"type": kind, **item} if item.get("type") is None else item)
    except ValidationError as error:
        raise _item_error(error, where) from None
    check_fields(read.model_extra or {}, model.model_fields, ignored=IGNORED_IN_ITEMS, where=f"{where}.")
    return _to_stored(read, at)


def _item_error(error: ValidationError, where: str) -> RequestError:
    """A validation error of an item, with the item's place before each field name."""
    found = from_validation(error)
    for path in {".".join(map(str, detail["loc"])) for detail in error.errors()}:
        found.message = found.message.replace(f"`{path}`", f"`{where}.{path}`")
    field = f"{where}.{found.field}" if found.field else where
    return RequestError(found.message, field=field, word=found.word)


def _to_stored(item: InputItem, at: int) -> dict[str, Any]:
    """An item as it is stored: with an id, its text in parts.

    A call without an id has one by its place: prompts hold it, and what they begin with is reused.
    """
    stored = {"id": None, **item.model_dump(exclude_none=True)}
    clients_id = stored["id"] if isinstance(stored["id"], str) else ""
    stored["id"] = clients_id or f"{item.prefix}_{uuid4().hex}"
    if isinstance(item, InputMessage) and isinstance(item.content, str):
        stored["content"] = [{"type": PART_TYPES[item.role], "text": item.content}]
    if isinstance(item, InputLocalShellOutput) and not item.call_id:
        stored |= {"call_id": clients_id, "id": f"{item.prefix}_{uuid4().hex}"}
    if isinstance(item, CALLS):
        stored["call_id"] = item.call_id or clients_id or f"call_{at}"
    if isinstance(item, InputReasoning):
        return {"summary": [], **stored}
    return {"status": "completed", **stored}

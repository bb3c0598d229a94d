"""Input items: checked, and written as they are stored.  Knows nothing of chat, of the store or of HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal
from uuid import uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictStr, ValidationError

from pipelines.errors import RequestError
from server.generation.requests.field_types import fault
from server.generation.requests.known_fields import check_fields, shown
from server.http.errors import from_validation
from server.responses.unsupported_fields import IGNORED_IN_ITEMS

PART_OF = {
    "user": "input_text",
    "system": "input_text",
    "developer": "input_text",
    "assistant": "output_text",
}
"""Role → the type of its text parts."""


def _content(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return value
    if not isinstance(value, str):
        raise fault(f"must be a string or a list of content parts, got {shown(value)}")
    return value


Content = Annotated[Any, BeforeValidator(_content)]
"""A string, or a list of objects."""


class Item(BaseModel):
    """One item of an input.  Other fields than those declared are ignored for a reason, null, or refused."""

    model_config = ConfigDict(extra="allow")
    prefix: ClassVar[str]
    """Ids of items of this type begin so."""

    type: str


class MessageItem(Item):
    prefix: ClassVar[str] = "msg"

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content


class CallItem(Item):
    """A call that the model made."""

    prefix: ClassVar[str] = "fc"

    type: Literal["function_call"]
    call_id: StrictStr | None = None
    name: StrictStr
    arguments: StrictStr


class OutputItem(Item):
    """What the function that was called gave back."""

    prefix: ClassVar[str] = "fco"

    type: Literal["function_call_output"]
    call_id: StrictStr
    output: Content


class TextPart(BaseModel):
    model_config = ConfigDict(extra="allow")
    text: StrictStr


class ReasoningItem(Item):
    prefix: ClassVar[str] = "rs"

    type: Literal["reasoning"]
    summary: list[TextPart] | None = None
    content: list[TextPart] | None = None


ITEMS: dict[str, type[Item]] = {
    "message": MessageItem,
    "function_call": CallItem,
    "function_call_output": OutputItem,
    "reasoning": ReasoningItem,
}
"""Type of an item → what it may hold."""


def read_items(value: Any, find: Callable[[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of a request's `input`, each with an id, as they are stored.

    `find(id, where)` gives the item that a reference names.  Raises RequestError naming the place.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [_stored(MessageItem(role="user", content=value))]
    return [_read(item, f"input.{i}", find) for i, item in enumerate(value)]


def references(value: Any) -> list[str]:
    """The ids of the items that an `input` refers to."""
    items = value if isinstance(value, list) else []
    return [item["id"] for item in items if isinstance(item, dict) and _kind(item) == "item_reference"]


def _kind(item: dict[str, Any]) -> Any:
    if item.get("type") is not None:
        return item["type"] if item["type"] != "item_reference" or isinstance(item.get("id"), str) else None
    return "message" if "role" in item else "item_reference" if isinstance(item.get("id"), str) else None


def _read(item: Any, where: str, find: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise RequestError(f"`{where}` must be an object, got {shown(item)}", field=where)
    kind = _kind(item)
    if kind == "item_reference":
        return find(item["id"], where)
    model = ITEMS.get(kind) if isinstance(kind, str) else None
    if model is None:
        allowed = ", ".join([*ITEMS, "item_reference"])
        raise RequestError(
            f"`{where}.type`: unknown item type {shown(item.get('type'))}; allowed: {allowed}",
            field=f"{where}.type",
        )
    try:
        read = model.model_validate({"type": kind, **item} if item.get("type") is None else item)
    except ValidationError as error:
        raise _fault(error, where) from None
    check_fields(read.model_extra or {}, model.model_fields, ignored=IGNORED_IN_ITEMS, where=f"{where}.")
    return _stored(read)


def _fault(error: ValidationError, where: str) -> RequestError:
    """What pydantic found in an item, with the item's place before each name."""
    told = from_validation(error)
    for path in {".".join(map(str, found["loc"])) for found in error.errors()}:
        told.message = told.message.replace(f"`{path}`", f"`{where}.{path}`")
    return RequestError(told.message, field=f"{where}.{told.field}" if told.field else where)


def _stored(item: Item) -> dict[str, Any]:
    """An item as its response remembers it: with an id, its text in parts."""
    given = item.model_dump(exclude_none=True)
    found = {"id": None, **given}
    if not isinstance(found["id"], str) or not found["id"]:
        found["id"] = f"{item.prefix}_{uuid4().hex}"
    if isinstance(item, MessageItem) and isinstance(item.content, str):
        found["content"] = [{"type": PART_OF[item.role], "text": item.content}]
    if isinstance(item, CallItem):
        found["call_id"] = item.call_id or found["id"]
    if isinstance(item, ReasoningItem):
        return {"summary": [], **found}
    return {"status": "completed", **found}

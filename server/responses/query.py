"""What may stand in a query: flags, numbers, includes, and which page of a list.  Knows no response."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from pipelines.errors import RequestError
from server.generation.requests.known_fields import shown
from server.responses.request import LOGPROBS
from server.responses.schema import ItemList
from server.responses.unsupported_fields import IGNORED_INCLUDES

FLAGS = {"true": True, "1": True, "false": False, "0": False}
DEFAULT_LIMIT = 20
MAX_LIMIT = 100
ORDERS = ("asc", "desc")


def flag(req: falcon.asgi.Request, name: str) -> bool:
    text = req.get_param(name)
    if text is None:
        return False
    if text.lower() not in FLAGS:
        raise RequestError(f"`{name}` must be true or false, got {shown(text)}", field=name)
    return FLAGS[text.lower()]


def whole_number(req: falcon.asgi.Request, name: str) -> int | None:
    text = req.get_param(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise RequestError(f"`{name}` must be a whole number from 0, got {shown(text)}", field=name)
    return int(text)


def includes(req: falcon.asgi.Request) -> None:
    """A response is stored with all that it had; raise RequestError for a name that nothing has."""
    allowed = [LOGPROBS, *IGNORED_INCLUDES]
    for name in ("include", "include[]"):
        for value in req.get_param_as_list(name) or []:
            if value not in allowed:
                raise RequestError(
                    f"`include` holds {shown(value)}; allowed: {', '.join(allowed)}", field="include"
                )


def page(req: falcon.asgi.Request, items: list[dict[str, Any]]) -> ItemList:
    """The items that `after`, `limit` and `order` ask for."""
    order, after = req.get_param("order") or "desc", req.get_param("after")
    if order not in ORDERS:
        raise RequestError(f"`order` must be asc or desc, got {shown(order)}", field="order")
    limit = whole_number(req, "limit")
    limit = DEFAULT_LIMIT if limit is None else limit
    if not 1 <= limit <= MAX_LIMIT:
        raise RequestError(f"`limit` must be from 1 to {MAX_LIMIT}, got {limit}", field="limit")
    ordered = items if order == "asc" else items[::-1]
    if after is not None:
        places = [i for i, item in enumerate(ordered) if item["id"] == after]
        if not places:
            raise RequestError(f"Item with id '{after}' not found.", field="after")
        ordered = ordered[places[0] + 1 :]
    shown_items = ordered[:limit]
    return ItemList(
        data=shown_items,
        first_id=shown_items[0]["id"] if shown_items else None,
        last_id=shown_items[-1]["id"] if shown_items else None,
        has_more=len(ordered) > limit,
    )

"""Reads the query parameters of the Responses API: flags, numbers, `include`, and the page of a list."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from pipelines.errors import RequestError
from server.http.error_text import quoted
from server.responses.reply_models import InputItemList
from server.responses.request import LOGPROBS
from server.responses.unsupported_fields import IGNORED_INCLUDES

FLAGS = {"true": True, "1": True, "false": False, "0": False}
DEFAULT_LIMIT = 20
MAX_LIMIT = 100
ORDERS = ("asc", "desc")


def read_flag(req: falcon.asgi.Request, name: str) -> bool:
    """A true/false query parameter, False when absent.  Raises RequestError."""
    text = req.get_param(name)
    if text is None:
        return False
    if text.lower() not in FLAGS:
        raise RequestError(f"`{name}` must be true or false, got {quoted(text)}", field=name)
    return FLAGS[text.lower()]


def read_whole_number(req: falcon.asgi.Request, name: str) -> int | None:
    """A query parameter that is an integer >= 0, None when absent.  Raises RequestError."""
    text = req.get_param(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise RequestError(f"`{name}` must be a whole number from 0, got {quoted(text)}", field=name)
    return int(text)


def check_includes(req: falcon.asgi.Request) -> None:
    """Raise RequestError for an unknown value of `include`; known ones change nothing (all is stored)."""
    allowed = [LOGPROBS, *IGNORED_INCLUDES]
    for name in ("include", "include[]"):
        for value in req.get_param_as_list(name) or []:
            if value not in allowed:
                raise RequestError(
                    f"`include` holds {quoted(value)}; allowed: {', '.join(allowed)}", field="include"
                )


def item_page(req: falcon.asgi.Request, items: list[dict[str, Any]]) -> InputItemList:
    """The page of `items` that `after`, `limit` and `order` select.  Raises RequestError."""
    order, after = req.get_param("order") or "desc", req.get_param("after")
    if order not in ORDERS:
        raise RequestError(f"`order` must be asc or desc, got {quoted(order)}", field="order")
    limit = read_whole_number(req, "limit")
    limit = DEFAULT_LIMIT if limit is None else limit
    if not 1 <= limit <= MAX_LIMIT:
        raise RequestError(f"`limit` must be from 1 to {MAX_LIMIT}, got {limit}", field="limit")
    ordered = items if order == "asc" else items[::-1]
    if after is not None:
        found = [i for i, item in enumerate(ordered) if item["id"] == after]
        if not found:
            raise RequestError(f"Item with id '{after}' not found.", field="after")
        ordered = ordered[found[0] + 1 :]
    shown_items = ordered[:limit]
    return InputItemList(
        data=shown_items,
        first_id=shown_items[0]["id"] if shown_items else None,
        last_id=shown_items[-1]["id"] if shown_items else None,
        has_more=len(ordered) > limit,
    )

"""Which page of a list a client wants: `after`, `limit` and `order` of the query."""

from __future__ import annotations

import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted

ORDERS = ("asc", "desc")


def read_page(req: falcon.asgi.Request, default_limit: int, max_limit: int) -> tuple[int, str | None, bool]:
    """(limit, after, whether the newest come first).  Raises RequestError."""
    order = req.get_param("order") or "desc"
    if order not in ORDERS:
        raise RequestError(f"`order` must be asc or desc, got {quoted(order)}", field="order")
    limit = read_whole_number(req, "limit")
    limit = default_limit if limit is None else limit
    if not 1 <= limit <= max_limit:
        raise RequestError(f"`limit` must be from 1 to {max_limit}, got {limit}", field="limit")
    return limit, req.get_param("after"), order == "desc"


def read_whole_number(req: falcon.asgi.Request, name: str) -> int | None:
    """A query parameter that is an integer >= 0, None when absent.  Raises RequestError."""
    text = req.get_param(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise RequestError(f"`{name}` must be a whole number from 0, got {quoted(text)}", field=name)
    return int(text)

"""Reads the query parameters of the Responses API: flags, numbers, `include`, and the page of a list."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from server.apis.responses.reply_models import InputItemList
from server.apis.responses.request import LOGPROBS
from server.apis.responses.unsupported_fields import IGNORED_INCLUDES
from server.http.query_page import read_page

FLAGS = {"true": True, "1": True, "false": False, "0": False}
DEFAULT_LIMIT = 20
MAX_LIMIT = 100


def read_flag(req: falcon.asgi.Request, name: str) -> bool:
    """A true/false query parameter, False when absent.  Raises RequestError."""
    text = req.get_param(name)
    if text is None:
        return False
    if text.lower() not in FLAGS:
        raise RequestError(f"`{name}` must be true or false, got {quoted(text)}", field=name)
    return FLAGS[text.lower()]


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
    limit, after, newest_first = read_page(req, DEFAULT_LIMIT, MAX_LIMIT)
    ordered = items[::-1] if newest_first else items
    if after is not None:
        places = [i for i, item in enumerate(ordered) if item["id"] == after]
        if not places:
            raise RequestError(f"Item with id '{after}' not found.", field="after")
        ordered = ordered[places[0] + 1 :]
    shown_items = ordered[:limit]
    return InputItemList(
        data=shown_items,
        first_id=shown_items[0]["id"] if shown_items else None,
        last_id=shown_items[-1]["id"] if shown_items else None,
        has_more=len(ordered) > limit,
    )

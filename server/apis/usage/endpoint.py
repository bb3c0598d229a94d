"""GET usage: requests and tokens by day, in the shape of OpenAI's usage of an organization."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

import falcon
import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from server.apis.usage.database import DAY_S, UsagePlace, UsageTotals
from server.http.exchange import Exchange
from server.http.query_page import read_whole_number
from server.schema.reply_models import Reply
from server.services.services import Services

DEFAULT_DAYS, MAX_DAYS = 7, 366
GROUPS = ("model", "api_key_id")


class UsageResult(Reply):
    """Sums of a day; `model` and `api_key_id`, the name of a key, are there where they are grouped by."""

    object: Literal["organization.usage.completions.result"] = "organization.usage.completions.result"
    input_tokens: int
    output_tokens: int
    input_cached_tokens: int
    num_model_requests: int
    project_id: None = None
    user_id: None = None
    api_key_id: str | None = None
    model: str | None = None
    batch: None = None
    service_tier: None = None


class UsageBucket(Reply):
    """A day, in UTC: from its first second to that of the next day."""

    object: Literal["bucket"] = "bucket"
    start_time: int
    end_time: int
    results: list[UsageResult]


class UsagePage(Reply):
    object: Literal["page"] = "page"
    data: list[UsageBucket]
    has_more: bool
    next_page: str | None


class UsageEndpoint:
    """A key sees its own usage, an admin key that of all."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        usage, (first, last, has_more) = self._services.usage, _days(req)
        own = None if exchange.sees is None else usage.name(exchange.sees)
        groups = {*_listed(req, "group_by", GROUPS)}
        models, keys = ({*_listed(req, name)} for name in ("models", "api_key_ids"))
        rows = [
            (place, totals)
            for place, totals in await usage.rows(first, last)
            if own in (None, place.key)
            and place.key in (keys or {place.key})
            and place.model in (models or {place.model})
        ]
        days = [_bucket(day, rows, groups) for day in range(first, last + 1)]
        page = UsagePage(data=days, has_more=has_more, next_page=f"page_{last + 1}" if has_more else None)
        resp.content_type, resp.data = falcon.MEDIA_JSON, page.model_dump_json().encode()


def _days(req: falcon.asgi.Request) -> tuple[int, int, bool]:
    """The first and the last day of a page, and whether there are more.  Raises RequestError."""
    width = req.get_param("bucket_width") or "1d"
    if width != "1d":
        raise RequestError(f"`bucket_width` must be 1d, got {quoted(width)}", field="bucket_width")
    limit = read_whole_number(req, "limit")
    limit = DEFAULT_DAYS if limit is None else limit
    if not 1 <= limit <= MAX_DAYS:
        raise RequestError(f"`limit` must be from 1 to {MAX_DAYS}, got {limit}", field="limit")
    end = read_whole_number(req, "end_time")
    end_day = int(time.time()) // DAY_S if end is None else (end - 1) // DAY_S
    start = read_whole_number(req, "start_time")
    first = end_day - limit + 1 if start is None else start // DAY_S
    if (page := req.get_param("page")) is not None:
        first = _page_day(page)
    last = min(end_day, first + limit - 1)
    return first, last, last < end_day


def _page_day(page: str) -> int:
    number = page.removeprefix("page_")
    if not (number.isascii() and number.isdecimal() and len(number) <= 9):
        raise RequestError(f"`page` must be a `next_page`, got {quoted(page)}", field="page")
    return int(number)


def _listed(req: falcon.asgi.Request, name: str, known: Iterable[str] = ()) -> list[str]:
    """The values of a parameter that may be repeated, also with brackets behind it.  Raises RequestError."""
    values = [*(req.get_param_as_list(name) or []), *(req.get_param_as_list(f"{name}[]") or [])]
    if known and (wrong := [value for value in values if value not in known]):
        raise RequestError(f"`{name}` may be {', '.join(known)}, got {quoted(wrong[0])}", field=name)
    return values


def _bucket(day: int, rows: Iterable[tuple[UsagePlace, UsageTotals]], groups: set[str]) -> UsageBucket:
    sums: dict[tuple[str | None, str | None], UsageTotals] = {}
    for place, totals in rows:
        if place.day == day:
            group = (
                place.model if "model" in groups else None,
                place.key if "api_key_id" in groups else None,
            )
            sums.setdefault(group, UsageTotals()).add(totals)
    return UsageBucket(
        start_time=day * DAY_S,
        end_time=(day + 1) * DAY_S,
        results=[_result(*group, totals) for group, totals in sums.items()],
    )


def _result(model: str | None, key: str | None, totals: UsageTotals) -> UsageResult:
    return UsageResult(
        input_tokens=totals.input,
        output_tokens=totals.output,
        input_cached_tokens=totals.cached,
        num_model_requests=totals.requests,
        api_key_id=key,
        model=model,
    )

"""Conditions on the attributes of documents, in OpenAI's form, as SQL.

{"type": "eq", "key": "language", "value": "en"}; `type` may be eq, ne, gt, gte, lt, lte, in and nin; several
are joined by {"type": "and", "filters": […]} or "or".  {"language": "en"} is short for the first.  Numbers
are compared with numbers, texts with texts; a document without the attribute fulfils `ne` and `nin` alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pipelines.base.errors import RequestError

MAX_DEPTH, MAX_CONDITIONS, MAX_LISTED = 8, 64, 4096
"""The last: values of all lists of a filter together."""
COMPARISONS = {"eq": "IS", "ne": "IS NOT", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
OTHER_TYPES = {("g", False): "<", ("l", True): ">="}
"""The comparison of an attribute with the least text, where a number, or a text, is compared with it: to
SQLite each text is greater than each number.
"""
LISTS = {"in": "IN", "nin": "NOT IN"}
JOINS = {"and": " AND ", "or": " OR "}
MAX_KEY_CHARS = 256
LARGEST = 1 << 63
"""SQLite compares whole numbers of 64 bits."""

Where = tuple[str, list[Any]]
"""A condition of SQL and the values of its marks."""


def where(given: Any, field: str = "filters") -> Where:
    """The condition on `documents.attributes`.  Raises RequestError naming the place that is wrong."""
    return _FilterReader(field).read(given, field, 1)


class _FilterReader:
    """Reads one filter; it counts the conditions."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._num_conditions = self._num_listed = 0

    def read(self, wanted: Any, place: str, depth: int) -> Where:
        if not isinstance(wanted, Mapping):
            raise _wrong(place, "must be an object")
        if depth > MAX_DEPTH:
            raise _wrong(self._field, f"is nested more than {MAX_DEPTH} deep")
        kind = wanted.get("type")
        if not isinstance(kind, str) or not {"key", "filters"} & wanted.keys():
            return self._shorthand(wanted, place)
        if kind in JOINS:
            return self._joined(wanted, kind, place, depth)
        return self._condition(wanted, kind, place)

    def _shorthand(self, given: Mapping[str, Any], place: str) -> Where:
        if not given:
            raise _wrong(place, "must have a condition")
        parts = [
            self._condition({"key": key, "value": value}, "eq", f"{place}.{key}")
            for key, value in given.items()
        ]
        return _join(parts, "and")

    def _joined(self, given: Mapping[str, Any], kind: str, place: str, depth: int) -> Where:
        filters = given.get("filters")
        if not isinstance(filters, list) or not filters:
            raise _wrong(f"{place}.filters", "must be a list with at least one filter")
        parts = [self.read(part, f"{place}.filters.{i}", depth + 1) for i, part in enumerate(filters)]
        return _join(parts, kind)

    def _condition(self, wanted: Mapping[str, Any], kind: str, place: str) -> Where:
        self._num_conditions += 1
        if self._num_conditions > MAX_CONDITIONS:
            raise _wrong(self._field, f"has more than {MAX_CONDITIONS} conditions")
        key, value = wanted.get("key"), wanted.get("value")
        if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS or '"' in key or "\0" in key:
            raise _wrong(f"{place}.key"[:MAX_KEY_CHARS], "must be the name of an attribute")
        attribute = "json_extract(documents.attributes, ?)"
        path = f'$."{key}"'
        if kind in LISTS:
            values = _checked(value, f"{place}.value", _is_list)
            self._num_listed += len(values)
            if self._num_listed > MAX_LISTED:
                raise _wrong(self._field, f"has more than {MAX_LISTED} values in its lists")
            marks = ", ".join("?" * len(values))
            chosen = f"({attribute} {LISTS[kind]} ({marks}))", [path, *values]
            return chosen if kind == "in" else _join([chosen, (f"{attribute} IS NULL", [path])], "or")
        if kind not in COMPARISONS:
            allowed = ", ".join([*COMPARISONS, *LISTS, *JOINS])
            raise _wrong(f"{place}.type", f"must be one of {allowed}")
        value = _checked(value, f"{place}.value", _is_scalar)
        chosen = f"({attribute} {COMPARISONS[kind]} ?)", [path, value]
        other = OTHER_TYPES.get((kind[0], isinstance(value, str)))
        return _join([chosen, (f"({attribute} {other} '')", [path])], "and") if other else chosen


def _join(parts: list[Where], kind: str) -> Where:
    return f"({JOINS[kind].join(sql for sql, _ in parts)})", [
        value for _, values in parts for value in values
    ]


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -LARGEST <= value < LARGEST


def _is_list(value: Any) -> bool:
    is_list = isinstance(value, list) and len(value) > 0
    return is_list and all(map(_is_scalar, value[: MAX_LISTED + 1]))


def _checked(value: Any, place: str, fits: Callable[[Any], bool]) -> Any:
    if not fits(value):
        what = "must be a string, a number of 64 bits or a boolean; for `in` and `nin` a list of them"
        raise _wrong(place, what)
    return value


def _wrong(place: str, what: str) -> RequestError:
    return RequestError(f"`{place}` {what}", field=place)

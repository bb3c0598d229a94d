"""Validation rules for JSON bodies as data: a rule is a field, a test and an error text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pipelines.base.errors import RequestError

UINT32 = 2**32


class Rule(NamedTuple):
    """`holds(value)` must be true for the field's value; an absent field, or null, is not tested.

    With `null` set, null is tested like any other value.
    """

    field: str
    holds: Callable[[Any], bool]
    text: str
    null: bool = False


def check(body: Mapping[str, Any], rules: Iterable[Rule]) -> None:
    """Raise RequestError with the text of the first rule that does not hold."""
    for rule in rules:
        value = body.get(rule.field)
        if rule.field not in body or (value is None and not rule.null):
            continue
        if not rule.holds(value):
            raise RequestError(rule.text, field=rule.field)


def check_whole(body: Mapping[str, Any], rules: Iterable[Rule]) -> None:
    """Checks rules about several fields: each tests the whole body and names the field at fault."""
    for rule in rules:
        if not rule.holds(body):
            raise RequestError(rule.text, field=rule.field)


def boolean(value: Any) -> bool:
    return isinstance(value, bool)


def text(value: Any) -> bool:
    return isinstance(value, str)


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def unsigned(value: Any) -> bool:
    return whole(value) and value >= 0


def below(limit: float) -> Callable[[Any], bool]:
    return lambda value: bool(value < limit)


def within(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: bool(low <= value <= high)


def instance(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)

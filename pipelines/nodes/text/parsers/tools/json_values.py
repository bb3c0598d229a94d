"""Reads and writes whole JSON values such that every client reads them."""

from __future__ import annotations

import json
import math
from typing import Any

DEEPEST = 100
"""Most levels of nested values: fewer than the readers of any client take."""


def read_json(text: str) -> Any:
    """The JSON value in `text`; ValueError where there is none that every client reads.

    That is a value with a number that is not finite, or with more than DEEPEST levels.
    """
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > DEEPEST:
        _check_depth(value, 0)
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number of JSON")
    return value


def _check_depth(value: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError("nested too deeply")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        _check_depth(each, depth + 1)


def whole_characters(text: str) -> str:
    """The text with halves of surrogate pairs joined, and U+FFFD for those that stand alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def as_json(value: Any) -> str:
    """A value as JSON text of whole characters."""
    return whole_characters(json.dumps(value, ensure_ascii=False))

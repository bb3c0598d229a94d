"""Calls in JSON: `{"name": …, "arguments": {…}}`, several of them, or a name followed by its arguments.

Knows nothing of where the text was found or what stood around it.
"""

from __future__ import annotations

import re
from typing import Any

from pipelines.parsers.tools.calls import Made, Read
from pipelines.parsers.tools.declared import Declared, read_json

ARGUMENTS = ("arguments", "parameters")


def read_objects(body: str, declared: Declared) -> list[Made] | None:
    """One object or a list of them; arguments that are left out are none."""
    return _read(body, needs_arguments=False)


def read_full_objects(body: str, declared: Declared) -> list[Made] | None:
    """As `read_objects`, of text that no mark tells from an answer in JSON: an object must have arguments."""
    return _read(body, needs_arguments=True)


def either(*readers: Read) -> Read:
    """The first of several readers that finds calls."""

    def read(body: str, declared: Declared) -> list[Made] | None:
        return next((made for reader in readers if (made := reader(body, declared))), None)

    return read


def named(pattern: str) -> Read:
    """A reader for a name before its arguments: `pattern` has the groups name, arguments and perhaps id."""
    form = re.compile(pattern, re.DOTALL)

    def read(body: str, declared: Declared) -> list[Made] | None:
        found = form.fullmatch(body)
        if found is None:
            return None
        arguments = _json(found["arguments"])
        if not isinstance(arguments, dict):
            return None
        return [Made(found["name"], arguments, found.groupdict().get("id") or "")]

    return read


def _read(body: str, needs_arguments: bool) -> list[Made] | None:
    value = _json(body)
    made = [_made(each, needs_arguments) for each in (value if isinstance(value, list) else [value])]
    calls = [each for each in made if each is not None]
    return calls if len(calls) == len(made) else None


def _made(value: Any, needs_arguments: bool) -> Made | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    key = next((key for key in ARGUMENTS if key in value), None)
    arguments = value[key] if key else None if needs_arguments else {}
    return Made(value["name"], arguments) if isinstance(arguments, dict) else None


def _json(text: str) -> Any:
    """The JSON value in `text`, None where there is none."""
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None

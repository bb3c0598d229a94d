"""Calls whose parameters stand in tags: a name, then pairs of a key and a value in plain text.

Knows nothing of what stands around a call.  Values have the types that the tool was declared with.
"""

from __future__ import annotations

import re

from pipelines.parsers.tools.calls import Made, Read
from pipelines.parsers.tools.declared import Declared


def tagged(head: str, parameter: str) -> Read:
    """A reader: `head` has the group name, `parameter` the groups key and value, repeated until the end."""
    begins, repeats = re.compile(head, re.DOTALL), re.compile(parameter, re.DOTALL)

    def read(body: str, declared: Declared) -> list[Made] | None:
        found = begins.match(body)
        if found is None:
            return None
        name, at, arguments = found["name"], found.end(), {}
        while each := repeats.match(body, at):
            key, at = each["key"].strip(), each.end()
            arguments[key] = declared.value(name, key, _unwrapped(each["value"]))
        return None if body[at:].strip() else [Made(name, arguments)]

    return read


def _unwrapped(value: str) -> str:
    """Without the line break that a template may write on each side of a value."""
    return value.removeprefix("\n").removesuffix("\n")

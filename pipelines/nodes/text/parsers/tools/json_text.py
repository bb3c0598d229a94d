"""Text of JSON: its brackets, one character after the other, and what a call's object says in it.

Knows nothing of blocks or marks.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pipelines.nodes.text.parsers.tools.declared import read_json

ARGUMENTS = ("arguments", "parameters")
KEY = re.compile(rf'"(?:{"|".join(ARGUMENTS)})"\s*:\s*\Z')
KEY_CHARS = 40
"""How far before its value the key of the arguments may stand; farther away it is found when all is read."""


class Brackets:
    """Counts the brackets of JSON; those in strings are text."""

    def __init__(self) -> None:
        self.depth = 0
        self.quoted = False
        self._escaped = False

    def take(self, char: str) -> bool:
        """Whether the character is a bracket that was counted."""
        if self.quoted:
            self.quoted = self._escaped or char != '"'
            self._escaped = not self._escaped and char == "\\"
            return False
        self.quoted = char == '"'
        self.depth += (char in "[{") - (char in "]}")
        return char in "[]{}"


def value_of(text: str) -> Any:
    """The JSON value in `text`, None where there is none."""
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None


def name_of(call: Any) -> str:
    """The name that a call's object says, "" where it says none."""
    name = call.get("name") if isinstance(call, dict) else None
    return name if isinstance(name, str) else ""


def arguments_of(call: Any) -> Any:
    """A call's arguments, an object or text that is one; None when they are missing or something else."""
    value = next((call[key] for key in ARGUMENTS if key in call), None)
    value = value_of(value) if isinstance(value, str) else value
    return value if isinstance(value, dict) else None


def says_arguments(call: Any) -> bool:
    return any(key in call for key in ARGUMENTS)


def before_arguments(text: str) -> str | None:
    """An object's members before the arguments' key, which ends `text`; None where it does not."""
    end = text[-KEY_CHARS:]
    key = KEY.search(end)
    if key is None:
        return None
    return text[: len(text) - len(end) + key.start()].rstrip().removesuffix(",") + "}"


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

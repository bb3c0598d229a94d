"""Reads JSON text: its brackets, character by character, and the name and arguments in a call's object."""

from __future__ import annotations

import re
from typing import Any

from pipelines.nodes.text.parsers.tools.json_values import read_json

ARGUMENTS = ("arguments", "parameters")
NAMES = ("name", "tool_name")
KEY = re.compile(rf'"(?:{"|".join(ARGUMENTS)})"\s*:\s*\Z')
KEY_CHARS = 40
"""Most characters between the key of the arguments and its value, for arguments in pieces."""


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
    except ValueError:
        return None


def name_of(call: Any) -> str:
    """The name in a call's object, "" where it has none."""
    name = next((call[key] for key in NAMES if key in call), None) if isinstance(call, dict) else None
    return name if isinstance(name, str) else ""


def arguments_of(call: Any) -> Any:
    """A call's arguments, an object or text that is one; None where they are missing or something else."""
    value = next((call[key] for key in ARGUMENTS if key in call), None)
    if isinstance(value, str):
        from pipelines.nodes.text.parsers.tools.mended_json import mended  # few models write them as text

        try:
            value = mended(value)
        except ValueError:
            return None
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

"""Writes settings as text of a graph line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
"""Text that is the same without quotes."""
_CONSTANTS = ("true", "false", "null")


def settings_text(settings: Mapping[str, Any]) -> str:
    """`, name: value` for each setting that is not None."""
    return "".join(f", {name}: {word(value)}" for name, value in settings.items() if value is not None)


def word(value: Any) -> str:
    """A value as a graph's YAML reads it: in quotes where it needs them; mappings and lists on one line.

    What looks like a key or a comment in a text is escaped.
    """
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _CONSTANTS:
        return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{word(key)}: {word(setting)}" for key, setting in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(word, value)) + "]"
    text = json.dumps(value, ensure_ascii=False)
    return text.replace(": ", "\\u003a ").replace("  #", " \\u0020#") if isinstance(value, str) else text

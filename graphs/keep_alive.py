"""How long a model stays loaded without calls: in seconds, or in Ollama's words."""

from __future__ import annotations

import math
import re

UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
WORDS = 'seconds, or a number with a unit such as "30s", "5m" or "1h30m"; 0: not at all; -1: always'
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def keep_alive_s(value: object) -> float:
    """The seconds that `value` means; infinity for a negative one.  Raises ValueError."""
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"must be {WORDS}")
    return math.inf if value < 0 else float(value)


def _of_text(text: str) -> float:
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        return keep_alive_s(float(text))
    parts = _PART.findall(text.removeprefix("-"))
    if not parts or "".join(number + unit for number, unit in parts) != text.removeprefix("-"):
        raise ValueError(f"must be {WORDS}")
    seconds = sum(float(number) * UNITS_S[unit] for number, unit in parts)
    return math.inf if text.startswith("-") else seconds

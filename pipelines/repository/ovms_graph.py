"""Reads the calculator, pooling and normalization of a model from OpenVINO Model Server's graph.pbtxt."""

from __future__ import annotations

import re
from pathlib import Path

FILE = "graph.pbtxt"
POOLINGS = {"CLS": "cls", "LAST": "last", "MEAN": "mean"}


def find_calculator(place: Path) -> str | None:
    """The name of the first calculator; None without a graph.pbtxt."""
    return _value(place, r"calculator")


def find_pooling(place: Path) -> str | None:
    """The `how` of a `pool` node; None when the file names no pooling."""
    return POOLINGS.get(_value(place, "pooling") or "")


def normalizes(place: Path) -> bool:
    """Whether embeddings get length 1, which is the default of OpenVINO Model Server."""
    return _value(place, "normalize_embeddings") != "false"


def _value(place: Path, name: str) -> str | None:
    try:
        text = (place / FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(rf"\b{name}\s*:\s*\"?(\w+)", text)
    return found[1] if found else None

"""What OpenVINO Model Server's graph beside a model says of it: its calculator, pooling, normalising.

Reads graph.pbtxt as far as that; knows no graph of ours.
"""

from __future__ import annotations

import re
from pathlib import Path

FILE = "graph.pbtxt"
POOLINGS = {"CLS": "cls", "LAST": "last", "MEAN": "mean"}


def find_calculator(place: Path) -> str | None:
    """The first calculator; None where there is no such graph."""
    return _said(place, r"calculator")


def find_pooling(place: Path) -> str | None:
    """How it pools, in our words; None where it does not say."""
    return POOLINGS.get(_said(place, "pooling") or "")


def normalizes(place: Path) -> bool:
    return _said(place, "normalize_embeddings") != "false"


def _said(place: Path, name: str) -> str | None:
    try:
        text = (place / FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(rf"\b{name}\s*:\s*\"?(\w+)", text)
    return found[1] if found else None

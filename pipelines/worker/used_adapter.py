"""The adapter that a request runs with."""

from __future__ import annotations

from typing import NamedTuple


class UsedAdapter(NamedTuple):
    """An adapter of `model` under its own name, by the number of its load."""

    model: str
    name: str
    number: int

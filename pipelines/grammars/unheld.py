"""Notes of what calls of declared tools are not held to, for the reply to say."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar

_noted: ContextVar[dict[str, set[str]] | None] = ContextVar("unheld", default=None)


def collect() -> dict[str, set[str]]:
    """Begin to collect notes in this task and in what it starts: name of a tool → keywords of its schema."""
    notes: dict[str, set[str]] = {}
    _noted.set(notes)
    return notes


def note(tool: str, keywords: Iterable[str]) -> None:
    """Calls of this tool are not held to these keywords of its schema."""
    notes = _noted.get()
    if notes is not None:
        notes.setdefault(tool, set()).update(keywords)

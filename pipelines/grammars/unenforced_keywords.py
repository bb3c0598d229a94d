"""Notes of what replies and calls of declared tools are not held to, for the reply to say."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar

Notes = dict[tuple[str, str], set[str]]
"""("tool", its name) or ("field", where the schema of a reply stands) → keywords of the schema."""

_noted: ContextVar[Notes | None] = ContextVar("unenforced_keywords", default=None)


def collect() -> Notes:
    """Begin to collect notes in this task and in what it starts."""
    notes: Notes = {}
    _noted.set(notes)
    return notes


def note(tool: str, keywords: Iterable[str]) -> None:
    """Calls of this tool are not held to these keywords of its schema."""
    _note(("tool", tool), keywords)


def note_field(where: str, keywords: Iterable[str]) -> None:
    """The reply is not held to these keywords of the schema in this field."""
    _note(("field", where), keywords)


def _note(of: tuple[str, str], keywords: Iterable[str]) -> None:
    notes = _noted.get()
    if notes is not None:
        notes.setdefault(of, set()).update(keywords)

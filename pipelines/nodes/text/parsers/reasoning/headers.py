"""How long the header of a message may be, for formats in which each message begins with one."""

from __future__ import annotations

LONGEST_HEADER = 200
"""Characters without the white space around them.  A longer text without a marker is no header but plain
text."""


def may_be_header(text: str) -> bool:
    return len(text.strip()) <= LONGEST_HEADER


def bounded_space(text: str) -> str:
    """The text with no more white space at its start than a header is long: a model that repeats a line break
    before its header costs no time."""
    return text[max(0, len(text) - len(text.lstrip()) - LONGEST_HEADER) :]

"""Compactions: a summary that stands for a conversation, which the client sends back in its place.

The API calls it encrypted, since clients are not to read it.  Here it is the text in Base64: any server
can read what another one wrote.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from pipelines.requests.fields.unknown_fields import note_left_out

MARK = "braid:"
"""The prefix of a summary that was made here."""
ASK = (
    "Write a summary of this conversation that stands for it from now on: what the user asked for and "
    "decided, what was done and found, with names of files, commands and numbers, and what is left to do. "
    "Call no tool; answer with the summary alone."
)
SUMMARY = "The conversation before this message is left out. Its summary:\n\n"
DEVELOPERS = ("system", "developer")
UNREADABLE = "The conversation before this message is left out, and its summary cannot be read here."


def sealed(summary: str) -> str:
    """A summary as the client stores it."""
    return base64.b64encode((MARK + summary).encode(errors="replace")).decode()


def opened(content: str) -> str:
    """What the prompt says for a compaction; one of another service cannot be read, which the reply says."""
    try:
        text = base64.b64decode(content, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        text = ""
    if not text.startswith(MARK):
        note_left_out("encrypted_content", "compaction")
        return UNREADABLE
    return SUMMARY + text.removeprefix(MARK)


def without_compacted(
    context: Sequence[dict[str, Any]], items: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The items of earlier responses that the last compaction, there or in `items`, does not stand for.

    What developers said stays: a summary is of what the user and the model said.
    """
    places = [at for at, item in enumerate([*context, *items]) if item["type"] == "compaction"]
    end = min(places[-1], len(context)) if places else 0
    return [item for item in context[:end] if item.get("role") in DEVELOPERS] + [*context[end:]]

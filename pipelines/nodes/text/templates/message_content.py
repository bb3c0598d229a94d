"""The content of a message: text, or a list of parts."""

from __future__ import annotations

from typing import Any

Content = str | list[dict[str, Any]] | None
Message = dict[str, Any]
BETWEEN_TEXTS = "\n\n"


def text_of(content: Content) -> str:
    """Text parts joined by a line break, as vLLM joins them."""
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content)
    return content or ""


def joined(one: Content, other: Content) -> Content:
    """Two contents as one: as text where both are, else in parts."""
    if isinstance(one, list) or isinstance(other, list):
        return [*parts_of(one), *parts_of(other)]
    return BETWEEN_TEXTS.join(filter(None, (one, other)))


def parts_of(content: Content) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []

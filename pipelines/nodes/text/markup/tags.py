"""Splits text that arrives in pieces at tags: no character is lost, and half a tag is held back."""

from __future__ import annotations

from collections.abc import Iterator


class TagScanner:
    """Text in pieces → (text, tag) pairs: the text before a tag, and the tag, or "" where none came yet.

    A possible beginning of a tag is held back until more text arrives.
    """

    def __init__(self, *tags: str) -> None:
        self.tags = tags
        self.held = ""

    def push(self, text: str, *, final: bool = False) -> Iterator[tuple[str, str]]:
        """The pairs that are certain after `text`.  With `final`, nothing is held back.

        Set `tags` between two pairs to look for other tags in the rest.
        """
        self.held += text
        while hit := self._first():
            at, tag = hit
            before, self.held = self.held[:at], self.held[at + len(tag) :]
            yield before, tag
        keep = 0 if final else max((overlap(self.held, tag) for tag in self.tags), default=0)
        settled, self.held = self.held[: len(self.held) - keep], self.held[len(self.held) - keep :]
        if settled:
            yield settled, ""

    def _first(self) -> tuple[int, str] | None:
        hits = [(at, tag) for tag in self.tags if (at := self.held.find(tag)) >= 0]
        return min(hits, key=lambda hit: hit[0]) if hits else None


def overlap(text: str, tag: str) -> int:
    """Length of the longest proper beginning of `tag` that ends `text`."""
    at = text.find(tag[0], max(0, len(text) - len(tag) + 1))
    while at >= 0 and not tag.startswith(text[at:]):
        at = text.find(tag[0], at + 1)
    return len(text) - at if at >= 0 else 0

"""Text that arrives in pieces: split at tags, and searched with a bounded number of steps for each character.

No character is lost, and half a tag is held back.
"""

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
    if at < 0:
        return 0
    end = text[at:]
    return len(end) if tag.startswith(end) else SearchPattern(tag).advance(0, end)[0]


class SearchPattern:
    """One string, and how a search for it goes on where a character does not continue what was found.

    Several searches may share it: each keeps the one number that `advance` returns.  Knuth, Morris and Pratt,
    "Fast pattern matching in strings", 1977.
    """

    def __init__(self, text: str) -> None:
        """`text` is not empty."""
        self.text = text
        self._shorter = [0, 0]
        """Number of characters matched → that of the longest shorter beginning which they end with.

        It is filled as far as searches come, so that a long string costs nothing before it is met.
        """

    def advance(self, matched: int, text: str) -> tuple[int, int]:
        """Search in the next piece of a text, whose end before it was the first `matched` characters.

        Returns (the size of the longest beginning of the string, but not the whole, with which the text now
        ends, 0).  Where the string is whole in the piece: (its length, the place in the piece behind it).
        """
        sought, shorter = self.text, self._shorter
        size = len(sought)
        for place, char in enumerate(text, 1):
            while matched and sought[matched] != char:
                matched = shorter[matched]
            if sought[matched] != char:
                continue
            matched += 1
            if matched == size:
                return matched, place
            if matched == len(shorter):
                self._extend()
        return matched, 0

    def _extend(self) -> None:
        """Fill in one entry more."""
        sought, shorter = self.text, self._shorter
        last = sought[len(shorter) - 1]
        matched = shorter[-1]
        while matched and sought[matched] != last:
            matched = shorter[matched]
        shorter.append(matched + (sought[matched] == last))

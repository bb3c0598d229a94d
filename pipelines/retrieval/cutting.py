"""Documents → passages: at headings, between paragraphs, else between sentences or words.

Each passage is a part of the document's text as it stands there, so that its place can be shown.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

HEADING = re.compile(r"^(#{1,6})[ \t]+(\S.*)$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)
MAX_PASSAGES = 250_000
"""The most of one document: they are in memory together until they are written."""
MAX_TITLE = 200
"""Characters of a heading; each passage below it stores them again."""
ENDS = (r"\n\s*\n", r"\n", r"(?<=[.!?…。！？])\s+", r"\s+", r"")
"""Where a text is cut, the best place first: paragraphs, lines, sentences, words, characters."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """`size` is the most characters of a passage; `overlap` of them are those of the passage before."""

    size: int = 1000
    overlap: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not 50 <= self.size <= 100_000:
            raise ValueError(f"a passage has 50 to 100,000 characters, not {self.size}")
        if not 0 <= self.overlap <= self.size // 2:
            raise ValueError(f"passages overlap by half of their {self.size} characters at most")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text from the character `start` on, below the headings `heading`."""

    text: str
    start: int
    heading: str = ""


def cut(text: str, cutting: Cutting) -> list[Passage]:
    """The passages of a document, in order; white space around them is left out.

    Raises ValueError where there are more than MAX_PASSAGES.
    """
    passages: list[Passage] = []
    for heading, start, end in _sections(text):
        for first, last in _spans(text, start, end, cutting):
            if part := text[first:last].strip():
                at = first + len(text[first:last]) - len(text[first:last].lstrip())
                passages.append(Passage(part, at, heading))
                if len(passages) > MAX_PASSAGES:
                    raise ValueError(
                        f"it has more than {MAX_PASSAGES:,} passages: cut it into several documents, or make "
                        "passages longer"
                    )
    return passages


def _sections(text: str) -> Iterator[tuple[str, int, int]]:
    """(headings above, start, end) of what is below each heading of Markdown, its own line included."""
    above: list[tuple[int, str]] = []
    marks = ((match.start(), len(match[1]), _title(match[2])) for match in _headings(text))
    first = next(marks, (len(text), 0, ""))
    if first[0] or not text:
        yield "", 0, first[0]
    for (start, depth, title), (end, _, _) in pairwise(chain([first], marks, [(len(text), 0, "")])):
        above = [*((level, name) for level, name in above if level < depth), (depth, title)]
        yield " > ".join(name for _, name in above), start, end


def _headings(text: str) -> Iterator[re.Match[str]]:
    """The headings outside of blocks of code."""
    fences = array("q", (match.start() for match in FENCE.finditer(text)))
    for match in HEADING.finditer(text):
        before = bisect_left(fences, match.start())
        if before % 2 == 0 or before == len(fences):  # all blocks before it end, or the last one never does
            yield match


def _title(line: str) -> str:
    """A heading's words, without the marks that may end it."""
    return line.rstrip(" \t\r#")[:MAX_TITLE]


def _spans(text: str, start: int, end: int, cutting: Cutting) -> Iterator[tuple[int, int]]:
    """The first and the last place of each passage of a section."""
    pieces = _pieces(text, start, end, cutting.size - cutting.overlap, 0)
    first = start
    for before, piece_end in pairwise(chain([start], pieces)):
        if piece_end - first > cutting.size - (cutting.overlap if first > start else 0):
            yield _overlapped(text, start, first, cutting.overlap), before
            first = before
    yield _overlapped(text, start, first, cutting.overlap), end


def _overlapped(text: str, section: int, first: int, overlap: int) -> int:
    """The beginning of a passage that repeats the end of the one before: a word's."""
    if not overlap or first == section:
        return first
    begin = max(section, first - overlap)
    space = re.compile(r"\s").search(text, begin, first)
    return space.end() if space else begin


def _pieces(text: str, start: int, end: int, size: int, level: int) -> Iterator[int]:
    """The ends of parts of at most `size` characters, cut at the best places that there are."""
    if end - start <= size:
        yield end
        return
    if ENDS[level] == "":
        yield from range(start + size, end, size)
        yield end
        return
    first = start
    ends = (match.end() for match in re.compile(ENDS[level]).finditer(text, start, end))
    for last in chain((place for place in ends if place < end), [end]):
        if last - first <= size:  # most are: no generator for each word
            yield last
        else:
            yield from _pieces(text, first, last, size, level + 1)
        first = last

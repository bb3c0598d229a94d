"""Long texts → token ids, piece by piece: with little memory, and no more of a text than matters.

Neighbouring pieces overlap.  They are joined where both give the same run of tokens for the same characters,
away from the cuts: there a token depends on neither cut, so that the ids are those of the whole text.  Where
they never agree, one word covers the overlap, and a longer piece is read.  Within a word without end, a
unigram model may choose another of several equally likely readings: it compares sums of scores, rounded since
the word's start.
"""

from __future__ import annotations

from typing import NamedTuple

from tokenizers import Tokenizer

from pipelines.base.cancellation import check_cancelled
from pipelines.base.errors import RequestError

PIECE_CHARS = 1 << 16
OVERLAP_CHARS = 1 << 11
MARGIN_CHARS = 1 << 8
"""What a cut may change beside it."""
AGREED_TOKENS = 8
MAX_PIECE_CHARS = 1 << 20


class Piece(NamedTuple):
    """A part of a text, its ids, and where in the text each of them begins."""

    start: int
    end: int
    ids: list[int]
    starts: list[int]


class LongTextReader:
    """Reads one text in pieces."""

    def __init__(self, tokenizer: Tokenizer, text: str) -> None:
        self._tokenizer = tokenizer
        self._text = text

    def ids(self, most: int | None = None) -> list[int]:
        """The ids of the text, without special tokens; some more than `most` stand for any number of more.

        Raises RequestError where a word is too long to be read.
        """
        return self._from(0, most)

    def last_ids(self, num_chars: int) -> list[int]:
        """The ids of the end of the text: those of its last `num_chars` characters, at least."""
        return self._from(max(len(self._text) - num_chars - PIECE_CHARS, 0), most=None)

    def _from(self, start: int, most: int | None) -> list[int]:
        ids: list[int] = []
        piece, num_taken, is_sure = self._piece(start, PIECE_CHARS), 0, start == 0
        while piece.end < len(self._text) and (most is None or len(ids) <= most):
            following = self._piece(piece.end - OVERLAP_CHARS, PIECE_CHARS)
            joint = _joint(piece, following)
            if joint is None:
                piece = self._longer(piece, num_taken)
                continue
            if is_sure:
                ids += piece.ids[num_taken : joint[0]]
            piece, num_taken, is_sure = following, joint[1], True
        return ids + piece.ids[num_taken:]

    def _piece(self, start: int, size: int) -> Piece:
        check_cancelled()
        text = self._text[start : start + size]
        encoding = self._tokenizer.encode_batch([text], add_special_tokens=False)[0]  # without the GIL
        return Piece(start, start + len(text), encoding.ids, [start + begin for begin, _ in encoding.offsets])

    def _longer(self, piece: Piece, num_taken: int) -> Piece:
        """The piece, twice as long; its beginning, where it was joined, must stay what it was."""
        size = 2 * (piece.end - piece.start)
        longer = self._piece(piece.start, size)
        begun = num_taken and num_taken + AGREED_TOKENS // 2
        if size > MAX_PIECE_CHARS or longer.ids[:begun] != piece.ids[:begun]:
            raise RequestError(f"the text has a word of more than {piece.end - piece.start} characters")
        return longer


def _joint(left: Piece, right: Piece) -> tuple[int, int] | None:
    """How many tokens of each piece are before a place where both agree on the tokens around it."""
    at: dict[int, int] = {}
    for index in range(len(left.ids) - 1, -1, -1):
        if left.starts[index] < right.start:
            break
        at[left.starts[index]] = index
    for index in range(len(right.ids) - AGREED_TOKENS):
        start = right.starts[index]
        if start > left.end - MARGIN_CHARS:
            return None
        other = at.get(start)
        if other is None or start < right.start + MARGIN_CHARS or right.starts[index - 1] == start:
            continue
        if _run(left, other) == _run(right, index):
            return other + AGREED_TOKENS // 2, index + AGREED_TOKENS // 2
    return None


def _run(piece: Piece, index: int) -> tuple[list[int], list[int]]:
    end = index + AGREED_TOKENS
    return piece.ids[index:end], piece.starts[index:end]

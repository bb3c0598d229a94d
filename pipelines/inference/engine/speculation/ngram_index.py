"""Finds what a sequence repeats: the latest earlier place where its last tokens occurred."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MULTIPLIER = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1
TAG = (1 << 31) - 1
ONE_TAG = 1 << 32
"""Entries of the same tag differ by less."""
EMPTY = -1
FEW_TOKENS = 16
"""More new tokens than these are worth array operations."""
LEAST_BITS = 10


class NgramIndex:
    """Runs of 1 to `longest` tokens → where each ended last, for one list of tokens that only grows.

    One table for all lengths, at most half full: an entry is the tag of a run above its position, and a
    later run takes the place of one before it.  Two runs of one tag are taken for the same (1 in 2**31).
    8 to 16 bytes for each token and length; a token costs the same few operations at any length of text.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self._num_indexed = 0
        self._shift = 64 - LEAST_BITS
        self._table = array("q", [EMPTY]) * (1 << LEAST_BITS)

    def find(self, token_ids: array[int]) -> tuple[int, int]:
        """Index what is new; the latest earlier end of the longest run that ends the list, and its length.

        (EMPTY, 0) where even the last token is new.  Call it once for each list that has grown.
        """
        end, first = len(token_ids), self._num_indexed
        if end * self.longest * 2 > len(self._table):
            first = self._grow(end)
        if end - 1 - first > FEW_TOKENS:
            self._put_many(token_ids, first, end - 1)
            first = end - 1
        table, shift, longest = self._table, self._shift, self.longest
        place = matched = 0
        for at in range(first, end):
            place = matched = run = 0
            for length in range(1, min(longest, at + 1) + 1):
                run = (run + token_ids[at - length + 1] + 1) * MULTIPLIER & WORD
                slot, new = run >> shift, (run & TAG) << 32 | at
                same = table[slot] ^ new
                if 0 < same < ONE_TAG:  # 0: a shorter run of here with the same tag and slot
                    place, matched = same ^ at, length
                table[slot] = new
        self._num_indexed = end
        return (place, matched) if matched else (EMPTY, 0)

    def _grow(self, num_tokens: int) -> int:
        """Room for twice as many tokens as there are; all are to be put in again."""
        bits = max(LEAST_BITS, (num_tokens * self.longest * 4 - 1).bit_length())
        self._shift = 64 - bits
        self._table = array("q", [EMPTY]) * (1 << bits)
        return 0

    def _put_many(self, token_ids: array[int], first: int, end: int) -> None:
        """Enter the runs that end in [first, end), all of one length at a time."""
        begin = max(0, first - self.longest + 1)
        tokens = np.array(token_ids[begin:end], np.int64).astype(np.uint64)
        table = np.frombuffer(self._table, np.int64)  # no one makes the array longer while this is here
        runs = np.zeros(len(tokens), np.uint64)
        for length in range(1, min(self.longest, len(tokens)) + 1):
            older = tokens[: len(tokens) - length + 1]
            runs = (runs[len(runs) - len(older) :] + older + np.uint64(1)) * np.uint64(MULTIPLIER)
            at = np.arange(begin + length - 1, end)
            fresh = max(0, first - int(at[0]))
            _enter(table, runs[fresh:], at[fresh:], self._shift)


def _enter(table: NDArray[np.int64], words: NDArray[np.uint64], at: NDArray[np.int64], shift: int) -> None:
    """Enters n-grams; of those that share a slot the last one stays."""
    tags = (words & np.uint64(TAG)).astype(np.int64)
    table[(words >> np.uint64(shift)).astype(np.int64)] = tags << 32 | at


class TrackedTokens(NamedTuple):
    """How many of the new tokens were predicted, and whether a different one followed."""

    matched: int  # how many tokens had matched before
    hits: int
    missed: bool


class CopyTracker:
    """The place that a sequence copies from: `back` tokens before its end, 0 for none.

    Its last `matched` tokens equal those before that place. The place is used as long as it predicts the next
    tokens; then the index finds another.  `owner` is whose tokens they are.
    """

    def __init__(self, longest: int, owner: int) -> None:
        self.owner = owner
        self._ngrams = NgramIndex(longest)
        self._end = 0
        self.back = 0
        self.matched = 0

    def follow(self, token_ids: array[int]) -> TrackedTokens | None:
        """Advance to the end of the list, which has grown; None where nothing was predicted."""
        before, end, back = self._end, len(token_ids), self.back
        if end == before:
            return None
        self._end = end
        at = before
        while back and at < end and token_ids[at] == token_ids[at - back]:
            at += 1
        followed = TrackedTokens(self.matched, at - before, at < end) if back else None
        place, length = self._ngrams.find(token_ids)
        if back and at == end:
            self.matched += end - before
        else:
            self.back, self.matched = (end - 1 - place, length) if length else (0, 0)
        return followed

    def next_ids(self, token_ids: array[int], count: int) -> list[int]:
        """The `count` tokens that are predicted next, with `back > 0`; a short period is repeated."""
        begin = len(token_ids) - self.back
        ids = token_ids[begin : begin + count].tolist()
        while len(ids) < count:
            ids += ids[-self.back :][: count - len(ids)]
        return ids

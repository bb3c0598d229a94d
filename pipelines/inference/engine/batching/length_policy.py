"""Selects the text lengths of the next batch, from the number of waiting texts of each length."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

PADDING_SHARE = 16
"""At most 1 / PADDING_SHARE of the padded tokens of a batch is padding …"""
FREE_TOKENS, FREE_SHARE = 12, 640
"""… or FREE_TOKENS, or 1 / FREE_SHARE of the budget: the fixed cost of a call is worth some tokens."""
MAX_WIDTHS = 32
"""Most widths that are tried for a batch."""


def choose(anchor: int, counts: Mapping[int, int], ordered: Sequence[int], budget: int) -> dict[int, int]:
    """Length → how many texts of it make the batch, the longest first; one has the length `anchor`.

    `counts` has the number of waiting texts of each length, `ordered` its lengths, ascending.  Invariants:
    padded tokens ≤ `budget`, unless the batch is one text; padding ≤ max(padded / PADDING_SHARE, FREE_TOKENS,
    budget / FREE_SHARE).  Of the widths that can be had the narrowest that fills the budget is taken, else
    the one that takes most tokens.
    """
    best, most = {anchor: 1}, 0
    first = bisect_left(ordered, anchor)
    for at in range(first, min(first + MAX_WIDTHS, len(ordered))):
        width = ordered[at]
        if at > first and (2 * width > budget or width - anchor > _allowed(budget // width * width, budget)):
            break
        taken, is_full = _fill(width, anchor, counts, ordered[at::-1], budget)
        tokens = sum(length * count for length, count in taken.items())
        if tokens > most:
            best, most = taken, tokens
        if is_full and taken:
            break
    return best


def _fill(
    width: int, anchor: int, counts: Mapping[int, int], downwards: Sequence[int], budget: int
) -> tuple[dict[int, int], bool]:
    """What a batch of this width takes, from the longest down, and whether it then is full.

    Nothing when the anchor would be padded too much.
    """
    room, num_texts, padding = max(1, budget // width) - 1, 1, width - anchor  # the anchor has its place
    taken: dict[int, int] = {}
    for length in downwards:
        there = counts[length] - (length == anchor)
        fits = min(there, room, _bearable(width - length, width, num_texts, padding, budget))
        if fits > 0:
            taken[length] = fits
            room, num_texts, padding = room - fits, num_texts + fits, padding + fits * (width - length)
        if room == 0 or fits < there:
            break
    if padding > _allowed(num_texts * width, budget):
        return {}, False
    taken[anchor] = taken.get(anchor, 0) + 1
    return dict(sorted(taken.items(), reverse=True)), room == 0


def _bearable(gap: int, width: int, num_texts: int, padding: int, budget: int) -> int:
    """How many more texts, each padded by `gap`, keep the padding within its bounds; 0 or less: none."""
    cost = PADDING_SHARE * gap - width  # what each takes of what the others leave
    if cost <= 0:
        return budget
    return max((num_texts * width - PADDING_SHARE * padding) // cost, (_allowed(0, budget) - padding) // gap)


def _allowed(padded: int, budget: int) -> int:
    return max(padded // PADDING_SHARE, FREE_TOKENS, budget // FREE_SHARE)

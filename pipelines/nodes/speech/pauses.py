"""Times of words without the pauses between them, by Whisper's rules.

The path through the frames gives each of them to a word, and so a pause to the word before or after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipelines.values.reply_values import Segment

SENTENCE_ENDS = (".", "。", "!", "！", "?", "？")
MOST_USUAL_S = 0.7
"""The usual length of a word, at most."""
LONG = 2
"""Usual lengths; a longer word beside a pause has a part of it."""
PAUSE = 4
"""Usual lengths from the end of what was said to the end of the next word, where a pause is between them."""
APART_S = 0.5
"""The seconds by which a time of the segment must differ from its first or last word's to count instead."""


@dataclass(slots=True)
class HeardWord:
    """A word, or punctuation, in seconds from the beginning of its window."""

    text: str
    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


def usual_length(words: Sequence[HeardWord]) -> float:
    """Seconds; 0 where no word takes time."""
    return min(MOST_USUAL_S, float(np.median([each.length_s for each in words if each.length_s] or [0.0])))


def cut_at_sentences(words: Sequence[HeardWord], usual_s: float) -> None:
    """Shorten the end of a sentence, and what comes after it.  `words` have punctuation as words."""
    for before, word in pairwise(words):
        if word.length_s > LONG * usual_s:
            if word.text in SENTENCE_ENDS:
                word.end_s = word.start_s + LONG * usual_s
            elif before.text in SENTENCE_ENDS:
                word.start_s = word.end_s - LONG * usual_s


def cut_at_ends(words: Sequence[HeardWord], segment: Segment, said_until_s: float, usual_s: float) -> float:
    """Shorten the first and last words of a segment; returns when the last one ends.

    `said_until_s`: the end of what was said before it.
    """
    first, last = words[0], words[-1]
    if first.end_s - said_until_s > PAUSE * usual_s:
        _cut_after_pause(words[:2], LONG * usual_s)
    if first.start_s + APART_S < segment.start_s < first.end_s:
        first.start_s = max(first.start_s, min(first.end_s - usual_s, segment.start_s))
    if last.start_s < segment.end_s < last.end_s - APART_S:
        last.end_s = min(last.end_s, max(last.start_s + usual_s, segment.end_s))
    return last.end_s


def _cut_after_pause(words: Sequence[HeardWord], longest_s: float) -> None:
    """`words`: the first word after a pause, and the second if there is one."""
    first, *after = words
    if first.length_s <= longest_s and all(each.end_s - first.start_s <= 2 * longest_s for each in after):
        return
    for second in after:
        if second.length_s > longest_s:
            first.end_s = second.start_s = second.end_s - longest_s
    first.start_s = max(0.0, first.end_s - longest_s)

"""Where the last tokens of a text stood before."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from breadth import after

from pipelines.inference.engine.speculation.ngram_index import (
    EMPTY,
    LEAST_BITS,
    MULTIPLIER,
    TAG,
    WORD,
    CopyTracker,
    NgramIndex,
)


def slow(ids: list[int], longest: int) -> tuple[int, int]:
    """The same by looking everywhere."""
    for length in range(min(longest, len(ids) - 1), 0, -1):
        for end in range(len(ids) - 2, length - 2, -1):
            if ids[end - length + 1 : end + 1] == ids[-length:]:
                return end, length
    return EMPTY, 0


@pytest.mark.parametrize("seed", after(20, range(60)))
def test_it_finds_what_looking_everywhere_finds(seed):
    """But for runs whose slot another one took, which is rare while few share the table."""
    draw = Random(seed)
    longest, vocab = draw.randint(1, 8), draw.choice([2, 5, 40])
    ngrams, ids = NgramIndex(longest), array("q", [draw.randrange(vocab) for _ in range(draw.randint(1, 60))])
    same = 0
    for _ in range(40):
        match = ngrams.find(ids)
        assert match[1] <= longest
        end, length = match
        assert ids[end - length + 1 : end + 1] == ids[len(ids) - length :]
        same += match == slow(ids.tolist(), longest)
        ids.extend(draw.randrange(vocab) for _ in range(draw.choice([1, 1, 1, 3, 40])))
    assert same >= 28


def test_many_tokens_at_once_are_those_one_by_one():
    draw = Random(1)
    ids = array("q", [draw.randrange(300) for _ in range(3000)])
    whole, parts = NgramIndex(3), NgramIndex(3)
    for end in range(2990, 3001):
        found = parts.find(ids[:end])
    assert whole.find(ids) == found


def test_large_ids_are_told_apart():
    ids = array("q", [262143, 1, 2, 262142, 3, 4, 262143])
    assert NgramIndex(2).find(ids) == (0, 1)


def clash() -> tuple[int, int]:
    """Two ids of which the second alone and both together have one tag and one slot."""
    for last in range(1 << 14):
        before = ((last + 1) * (1 - MULTIPLIER) - 1) % (1 << 31)
        alone = (last + 1) * MULTIPLIER & WORD
        both = (alone + before + 1) * MULTIPLIER & WORD
        if alone >> 64 - LEAST_BITS == both >> 64 - LEAST_BITS:
            assert (alone ^ both) & TAG == 0
            return before, last
    raise AssertionError("none of them share a slot")


def test_a_run_is_not_taken_for_an_earlier_one_of_itself():
    ids, tracker = array("q", clash()), CopyTracker(2, owner=1)
    assert NgramIndex(2).find(ids) == (EMPTY, 0)
    tracker.follow(ids)
    assert (tracker.back, tracker.matched) == (0, 0)


def test_a_trail_is_followed_while_it_foretells():
    ids = array("q", [1, 2, 3, 4, 5, 6, 9, 9, 2, 3])
    tracker = CopyTracker(3, owner=1)
    assert tracker.follow(ids) is None
    assert tracker.next_ids(ids, 3) == [4, 5, 6]
    assert tracker.matched == 2
    ids.extend([4, 5])
    assert tracker.follow(ids) == (2, 2, False)
    assert tracker.matched == 4
    ids.extend([6, 7])
    assert tracker.follow(ids) == (4, 1, True)
    assert tracker.back == 0


def test_nothing_new_changes_nothing():
    ids, tracker = array("q", [1, 2, 1]), CopyTracker(3, owner=1)
    tracker.follow(ids)
    before = tracker.back, tracker.matched
    assert tracker.follow(ids) is None
    assert (tracker.back, tracker.matched) == before == (2, 1)

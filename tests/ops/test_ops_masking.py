"""Sparse changes of logits against loops over pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.masking import add_bias, allow_only, apply_bitmask, ban
from ops.penalties import penalise_presence_and_frequency, penalise_repetition


@st.composite
def entries(draw):
    """Logits (with infinities), and distinct pairs (row, id) into them."""
    num_rows, vocab = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    numbers = st.floats(-20, 20, width=32) | st.sampled_from([-np.inf, np.inf])
    flat = draw(st.lists(numbers, min_size=num_rows * vocab, max_size=num_rows * vocab))
    pairs = draw(st.lists(st.tuples(st.integers(0, num_rows - 1), st.integers(0, vocab - 1)), unique=True))
    rows, ids = (np.array([pair[i] for pair in pairs], np.int64) for i in range(2))
    return np.array(flat, np.float32).reshape(num_rows, vocab), rows, ids


def ramp(rows):
    return (np.arange(len(rows)) % 5 - 2).astype(np.float32) / 2


@given(entries())
def test_bias_is_added_where_named_and_nowhere_else(case):
    logits, rows, ids = case
    expected = logits.copy()
    for row, token, bias in zip(rows, ids, ramp(rows), strict=True):
        expected[row, token] += bias
    add_bias(logits, rows, ids, ramp(rows))
    np.testing.assert_array_equal(logits, expected)


@given(entries())
def test_banned_ids_are_impossible(case):
    logits, rows, ids = case
    expected = logits.copy()
    for row, token in zip(rows, ids, strict=True):
        expected[row, token] = -np.inf
    ban(logits, np.tile(rows, 2), np.tile(ids, 2))
    np.testing.assert_array_equal(logits, expected)


@given(entries())
def test_only_allowed_ids_stay_possible_in_the_rows_that_are_named(case):
    logits, rows, ids = case
    expected = logits.copy()
    pairs = set(zip(rows.tolist(), ids.tolist(), strict=True))
    for row, token in np.ndindex(*logits.shape):
        if row in rows and (row, token) not in pairs:
            expected[row, token] = -np.inf
    allow_only(logits, rows, ids)
    np.testing.assert_array_equal(logits, expected)


@given(entries(), st.sampled_from([0.5, 1.1, 2.0]))
def test_repetition_divides_positive_and_multiplies_other_logits(case, penalty):
    logits, rows, ids = case
    penalty = np.float32(penalty)
    expected = logits.copy()
    for row, token in zip(rows, ids, strict=True):
        seen = expected[row, token]
        expected[row, token] = seen / penalty if seen > 0 else seen * penalty
    penalise_repetition(logits, rows, ids, np.full(len(rows), penalty))
    np.testing.assert_array_equal(logits, expected)


@given(entries())
def test_presence_counts_once_and_frequency_every_time(case):
    logits, rows, ids = case
    counts = (np.arange(len(rows)) % 3).astype(np.float32)
    presence, frequency = np.full(len(rows), 0.5, np.float32), ramp(rows)
    expected = logits.copy()
    for i, (row, token) in enumerate(zip(rows, ids, strict=True)):
        expected[row, token] -= counts[i] * frequency[i]
        expected[row, token] -= presence[i] if counts[i] > 0 else np.float32(0)
    penalise_presence_and_frequency(logits, rows, ids, counts, presence, frequency)
    np.testing.assert_array_equal(logits, expected)


@pytest.mark.parametrize("vocab", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("spare_words", [0, 2])
def test_a_mask_leaves_what_it_allows_and_nothing_else(vocab, spare_words):
    rng = np.random.default_rng(vocab)
    logits = rng.choice(np.array([np.nan, -np.nan, np.inf, -np.inf, -1.5, 0, 2], np.float32), (3, vocab))
    bits = rng.integers(0, 2**32, (2, -(-vocab // 32) + spare_words), dtype=np.uint32)
    expected = logits.copy()
    for row, words in zip((2, 0), bits, strict=True):
        for token in range(vocab):
            if not words[token // 32] >> token % 32 & 1:
                expected[row, token] = -np.inf
    apply_bitmask(logits, np.array([2, 0]), bits)
    np.testing.assert_array_equal(logits, expected)


def test_logits_that_a_change_would_not_reach_are_refused():
    with pytest.raises(ValueError, match="copy"):
        ban(np.zeros((2, 6), np.float32)[:, :3], np.array([1]), np.array([2]))

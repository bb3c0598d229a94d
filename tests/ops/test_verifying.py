"""Rows behind guesses against a loop that walks through each run."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ops.contract import Index
from ops.verifying import NO_GUESS, NO_TOKEN, verify

RUNS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6), max_size=5)
"""Runs of (token, guess); the guess of a run's last row stands for none."""


def plain(token_ids: list[int], guesses: list[int]) -> list[int]:
    verified, holds = [], True
    for token_id, guess in zip(token_ids, guesses, strict=True):
        verified.append(token_id if holds else NO_TOKEN)
        holds = guess == NO_GUESS or (holds and token_id == guess)
    return verified


def ids(values: list[int]) -> Index:
    return np.array(values, np.int64)


@given(RUNS)
def test_a_row_counts_where_all_guesses_before_it_in_its_run_came_true(runs):
    token_ids = [token_id for run in runs for token_id, _ in run]
    guesses = [guess for run in runs for guess in [*(guess for _, guess in run[:-1]), NO_GUESS]]
    found = verify(ids(token_ids), ids(guesses))
    assert found.dtype == np.int64
    assert found.tolist() == plain(token_ids, guesses)


def test_runs_do_not_see_each_other():
    """The first fails at once; the second is right to its end; the third has no guesses."""
    token_ids = ids([7, 1, 2, 4, 5, 6, 9])
    guesses = ids([1, 2, NO_GUESS, 4, 5, NO_GUESS, NO_GUESS])
    assert verify(token_ids, guesses).tolist() == [7, NO_TOKEN, NO_TOKEN, 4, 5, 6, 9]


def test_a_guess_that_comes_true_behind_one_that_did_not_counts_for_nothing():
    found = verify(ids([3, 5, 6, 7]), ids([4, 5, 6, NO_GUESS]))
    assert found.tolist() == [3, NO_TOKEN, NO_TOKEN, NO_TOKEN]


def test_without_guesses_all_rows_count():
    assert verify(ids([3, 0, 5]), ids([NO_GUESS] * 3)).tolist() == [3, 0, 5]

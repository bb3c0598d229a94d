"""Rows behind draft tokens against a loop that walks through each run."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ops.contract import Index
from ops.draft_verification import NO_DRAFT_TOKEN, NO_TOKEN, verify

RUNS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6), max_size=5)
"""Runs of (token, draft token); the draft token of a run's last row stands for none."""


def plain(token_ids: list[int], draft_tokens: list[int]) -> list[int]:
    verified, holds = [], True
    for token_id, draft_token in zip(token_ids, draft_tokens, strict=True):
        verified.append(token_id if holds else NO_TOKEN)
        holds = draft_token == NO_DRAFT_TOKEN or (holds and token_id == draft_token)
    return verified


def ids(values: list[int]) -> Index:
    return np.array(values, np.int64)


@given(RUNS)
def test_a_row_counts_where_all_guesses_before_it_in_its_run_came_true(runs):
    token_ids = [token_id for run in runs for token_id, _ in run]
    draft_tokens = [
        draft_token
        for run in runs
        for draft_token in [*(draft_token for _, draft_token in run[:-1]), NO_DRAFT_TOKEN]
    ]
    found = verify(ids(token_ids), ids(draft_tokens))
    assert found.dtype == np.int64
    assert found.tolist() == plain(token_ids, draft_tokens)


def test_runs_do_not_see_each_other():
    """The first fails at once; the second is right to its end; the third has no draft tokens."""
    token_ids = ids([7, 1, 2, 4, 5, 6, 9])
    draft_tokens = ids([1, 2, NO_DRAFT_TOKEN, 4, 5, NO_DRAFT_TOKEN, NO_DRAFT_TOKEN])
    assert verify(token_ids, draft_tokens).tolist() == [7, NO_TOKEN, NO_TOKEN, 4, 5, 6, 9]


def test_a_guess_that_comes_true_behind_one_that_did_not_counts_for_nothing():
    found = verify(ids([3, 5, 6, 7]), ids([4, 5, 6, NO_DRAFT_TOKEN]))
    assert found.tolist() == [3, NO_TOKEN, NO_TOKEN, NO_TOKEN]


def test_without_guesses_all_rows_count():
    assert verify(ids([3, 0, 5]), ids([NO_DRAFT_TOKEN] * 3)).tolist() == [3, 0, 5]

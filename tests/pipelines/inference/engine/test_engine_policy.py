"""Scheduling rules: integers in, integers out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.inference.engine.sequences.policy import (
    MIN_SWAP_TOKENS,
    EngineSettings,
    blocks_for,
    may_admit,
    may_swap_out,
    split_budget,
)


def test_decoding_sequences_get_one_token_each_whatever_stands_before_them():
    assert split_budget([1000, 1, 1], 10) == [8, 1, 1]


def test_the_oldest_prompt_takes_what_is_left_before_the_next():
    assert split_budget([1, 6, 6, 6], 10) == [1, 6, 3, 0]


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 60))
def test_the_budget_is_kept_and_used(pending, spare):
    budget = pending.count(1) + spare
    counts = split_budget(pending, budget)
    assert all(0 <= count <= wanted for count, wanted in zip(counts, pending, strict=True))
    assert sum(counts) == min(budget, sum(pending))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_the_oldest_always_gets_tokens_when_the_budget_exceeds_the_decoders(pending):
    assert split_budget(pending, len(pending) + 1)[0] > 0


def test_admission_leaves_one_block_for_each_that_runs():
    assert may_admit(needed=3, reserved=2, num_running=4, free=9)
    assert not may_admit(needed=3, reserved=2, num_running=4, free=8)


def test_a_lone_sequence_may_take_every_block():
    assert may_admit(needed=8, reserved=0, num_running=0, free=8)


def test_what_fits_the_host_is_swapped_out():
    assert may_swap_out(num_tokens=100, num_blocks=7, free=7)
    assert not may_swap_out(num_tokens=100, num_blocks=7, free=6)


def test_what_is_quickly_computed_again_is_not_swapped_out():
    assert may_swap_out(MIN_SWAP_TOKENS, num_blocks=1, free=9)
    assert not may_swap_out(MIN_SWAP_TOKENS - 1, num_blocks=1, free=9)
    assert not may_swap_out(num_tokens=0, num_blocks=0, free=9)


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (4, 1), (5, 2)])
def test_blocks_are_rounded_up(num_tokens, num_blocks):
    assert blocks_for(num_tokens, 4) == num_blocks


def test_settings_under_which_prompts_could_starve_are_refused():
    with pytest.raises(ValueError, match=r"max_step_tokens \(64\) must be greater than max_sequences \(64\)"):
        EngineSettings(max_sequences=64, max_step_tokens=64)


def test_settings_need_a_row():
    with pytest.raises(ValueError, match="max_sequences must be at least 1"):
        EngineSettings(max_sequences=0)


def test_settings_need_a_row_to_score_a_prompt():
    with pytest.raises(ValueError, match="max_scored_tokens"):
        EngineSettings(max_scored_tokens=0)

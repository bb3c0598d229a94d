"""State that grows token by token equals state built at once; keys and checks of ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.base.errors import RequestError
from pipelines.inference.sampling.logit_edits import SeenTokens, TokenTail
from pipelines.inference.sampling.sampling_slots import NO_LIMIT, SamplingSlots, random_key
from pipelines.wire.sampling_params import SamplingParams, check_ids

TOKENS = st.lists(st.integers(0, 200), max_size=150)


@given(TOKENS, TOKENS)
def test_seen_tokens_are_the_distinct_ones_with_their_counts_in_the_output(prompt, output):
    seen = SeenTokens(prompt, [])
    for token in output:
        seen.append(token)
    found = dict(zip(seen.ids[: seen.size].tolist(), seen.counts[: seen.size].tolist(), strict=True))
    assert found == {token: output.count(token) for token in {*prompt, *output}}


@given(TOKENS, st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(0, 3))
def test_a_tail_knows_what_the_output_ends_with(output, prefix, spare):
    tail = TokenTail([], len(prefix) + spare)
    for token in output:
        tail.append(token % 4)
    assert tail.ends_with(prefix) == ([token % 4 for token in output][-len(prefix) :] == prefix)


def test_the_first_choice_draws_with_the_seed_itself_and_the_others_with_other_keys():
    assert random_key(42, 0) == 42
    assert random_key(-1, 0) == 2**64 - 1
    assert random_key(0, 1) != random_key(0x9E3779B97F4A7C15, 0)
    keys = [int(random_key(seed, choice)) for seed in range(50) for choice in range(50)]
    assert len(set(keys)) == len(keys)
    assert all(0 <= key < 2**64 for key in keys)


def test_a_cleared_row_is_greedy_and_has_no_edits():
    rows = SamplingSlots(2, 10)
    rows.set(1, SamplingParams(logit_bias={3: 1.0}, logprobs=2, temperature=0.7), [1], [2], 0, [9])
    assert rows.edited.tolist() == [False, True]
    rows.clear(1)
    assert rows.edited.tolist() == [False, False]
    assert rows.edits == [None, None]
    assert rows.draws.temperature.tolist() == [0, 0]
    assert rows.num_logprobs.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("params", "plain"),
    [
        (SamplingParams(temperature=0.0), True),
        (SamplingParams(temperature=0.0, top_k=5, seed=3), True),
        (SamplingParams(temperature=0.7), False),
        (SamplingParams(temperature=0.0, logprobs=0), False),
        (SamplingParams(temperature=0.0, logit_bias={3: 1.0}), False),
        (SamplingParams(temperature=0.0, min_tokens=2), False),
    ],
)
def test_a_row_is_plain_where_the_likeliest_token_is_all_that_is_wanted(params, plain):
    rows = SamplingSlots(2, 10)
    rows.set(1, params, [1], [], 0, [9])
    assert rows.plain.tolist() == [True, plain]
    rows.clear(1)
    assert rows.plain.tolist() == [True, True]


def test_a_row_that_asks_for_nothing_keeps_nothing():
    rows = SamplingSlots(1, 10)
    rows.set(0, SamplingParams(temperature=0.7, top_k=5, top_p=0.9, seed=3), range(10), [], 0, [9])
    rows.append(0, 4)
    assert rows.edits == [None]
    assert rows.num_outputs.tolist() == [1]


@pytest.mark.parametrize(("top_k", "kept"), [(-1, NO_LIMIT), (0, NO_LIMIT), (1, 1), (11, 11)])
def test_top_k_of_nothing_is_no_limit(top_k, kept):
    rows = SamplingSlots(1, 10)
    rows.set(0, SamplingParams(top_k=top_k), [], [], 0, [])
    assert rows.draws.top_k.tolist() == [kept]


def test_a_row_taken_again_after_a_preemption_has_the_state_that_it_had():
    params = SamplingParams(
        repetition_penalty=1.2, frequency_penalty=0.5, bad_words_ids=[[1, 2, 3]], min_tokens=4
    )
    rows = SamplingSlots(2, 10)
    rows.set(0, params, [5, 5, 6], [], 0, [9])
    for token in (1, 7, 1, 2):
        rows.append(0, token)
    rows.set(1, params, [5, 5, 6], [1, 7, 1, 2], 0, [9])
    first, second = rows.edits
    assert rows.num_outputs.tolist() == [4, 4]
    assert first.num_outputs == second.num_outputs == 4
    assert first.bans().tolist() == second.bans().tolist() == [3]
    for name in ("ids", "counts"):
        ours, other = (getattr(edits.seen, name)[: edits.seen.size] for edits in rows.edits)
        np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (SamplingParams(logit_bias={10: 1.0}), "logit_bias"),
        (SamplingParams(allowed_token_ids=[2, -1]), "allowed_token_ids"),
        (SamplingParams(bad_words_ids=[[1], [2, 99]]), "bad_words"),
        (SamplingParams(stop_token_ids=[10]), "stop_token_ids"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_id_outside_the_vocabulary_is_refused_by_name(params, field):
    with pytest.raises(RequestError, match=f"{field}.*Vocabulary size: 10") as caught:
        check_ids(params, 10)
    assert caught.value.field == field


def test_no_allowed_ids_at_all_are_refused():
    with pytest.raises(RequestError, match="empty"):
        check_ids(SamplingParams(allowed_token_ids=[]), 10)


def test_ids_inside_the_vocabulary_pass():
    params = SamplingParams(
        logit_bias={0: 1.0}, allowed_token_ids=[9], bad_words_ids=[[1, 9]], stop_token_ids=[9]
    )
    check_ids(params, 10)

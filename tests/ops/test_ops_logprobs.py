"""Log-probabilities, ranks and alternatives against float64 and a full sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.logprobs import as_drawn, gather_logprobs, logprobs_of
from ops.min_p_top_k import LOWEST


def plain(row, token, k):
    """float64 log-softmax, and ids sorted by (likelier, lower)."""
    wide = row.astype(np.float64)
    logprobs = wide - (wide.max() + np.log(np.exp(wide - wide.max()).sum()))
    order = sorted(range(len(row)), key=lambda other: (-row[other], other))
    return logprobs[token], order.index(token) + 1, order[:k], logprobs[order[:k]]


@given(
    st.integers(1, 5),
    st.sampled_from([1, 2, 30, 2500]),
    st.integers(0, 20),
    st.sampled_from([0, 1, 8]),
    st.integers(0, 2**32 - 1),
)
def test_logprobs_ranks_and_alternatives_are_those_of_a_full_sort(num_rows, vocab, k, scale, seed):
    random = np.random.default_rng(seed)
    logits = np.round(random.standard_normal((num_rows, vocab)) * scale, 1).astype(np.float32)
    tokens, k = random.integers(0, vocab, num_rows), min(k, vocab)
    logits[random.random(logits.shape) < 0.2] = -np.inf
    logits[:, 0] = 1.5
    before = logits.copy()
    gathered = gather_logprobs(logits, np.arange(num_rows), tokens, k)
    np.testing.assert_array_equal(logits, before)
    for row in range(num_rows):
        logprob, rank, top_ids, top = plain(logits[row], tokens[row], k)
        assert gathered.ranks[row] == rank
        assert gathered.top_ids[row].tolist() == top_ids
        np.testing.assert_allclose(gathered.chosen[row], logprob, atol=2e-5)
        np.testing.assert_allclose(gathered.top[row], top, atol=2e-5)


def test_only_the_named_rows_are_reported_in_their_order():
    logits = np.arange(12, dtype=np.float32).reshape(3, 4) * [[1], [-1], [2]]
    found = gather_logprobs(logits.astype(np.float32), np.array([2, 0]), np.array([3, 0]), 2)
    assert found.ranks.tolist() == [1, 4]
    assert found.top_ids.tolist() == [[3, 2], [3, 2]]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_row_without_a_finite_maximum_has_no_probabilities(odd):
    logits = np.full((1, 6), odd, np.float32)
    found = gather_logprobs(logits, np.array([0]), np.array([2]), 3)
    assert found.chosen.tolist() == [-np.inf]
    assert found.top.tolist() == [[-np.inf] * 3]


def test_a_row_is_reported_bit_by_bit_the_same_alone_and_in_a_batch():
    random = np.random.default_rng(1)
    logits, tokens = random.standard_normal((9, 40_001), dtype=np.float32) * 4, random.integers(0, 40_001, 9)
    together = gather_logprobs(logits, np.arange(9), tokens, 5)
    for row in range(9):
        alone = gather_logprobs(logits[row : row + 1], np.array([0]), tokens[row : row + 1], 5)
        for values, one in zip(together, alone, strict=True):
            np.testing.assert_array_equal(values[row : row + 1], one)


def test_no_rows_give_nothing():
    none = np.zeros(0, np.int64)
    found = gather_logprobs(np.zeros((0, 5), np.float32), none, none, 2)
    assert found.chosen.shape == (0,)
    assert found.top_ids.shape == (0, 2)


@given(st.sampled_from([1, 30, 2500]), st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_logprobs_of_single_ids_are_those_of_a_gather(vocab, num_pairs, seed):
    random = np.random.default_rng(seed)
    logits = random.standard_normal((3, vocab)).astype(np.float32)
    logits[random.random(logits.shape) < 0.2] = -np.inf
    rows, ids = random.integers(0, 3, num_pairs), random.integers(0, vocab, num_pairs)
    before = logits.copy()
    found = logprobs_of(logits, rows, ids)
    np.testing.assert_array_equal(logits, before)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, gather_logprobs(logits, rows, ids, 0).chosen, rtol=1e-6)


@given(
    st.sampled_from([1, 30, 2500]),
    st.sampled_from([0.0, 0.3, 0.9, 0.9999, 1.0]),
    st.sampled_from([0.3, 1.0, 2.0]),
    st.integers(0, 2**32 - 1),
)
def test_narrow_leaves_the_shortest_run_of_likeliest_ids(vocab, top_p, temperature, seed):
    values = (np.random.default_rng(seed).standard_normal((2, vocab)) * 3).astype(np.float32)
    heated = values / np.float32(temperature)
    narrowed = values.copy()
    as_drawn(narrowed, np.full(2, temperature, np.float32), np.array([top_p, 1], np.float32))
    np.testing.assert_array_equal(narrowed[1], heated[1])
    order = np.argsort(-heated[0], kind="stable")
    weights = np.exp(heated[0][order].astype(np.float64) - heated[0].max())
    size = int(np.count_nonzero(narrowed[0] > LOWEST))
    assert narrowed[0][order[:size]].tolist() == heated[0][order[:size]].tolist()
    assert weights[:size].sum() >= top_p * weights.sum() * (1 - 1e-5)
    assert size == 1 or weights[: size - 1].sum() <= top_p * weights.sum() * (1 + 1e-5)

"""Tokens are verified on the device as numpy verifies them, whatever way they were chosen."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops import numpy_ops
from ops.contract import RowSampling
from ops.cuda.sampling import CudaSamplingOps
from ops.draft_verification import NO_DRAFT_TOKEN, NO_TOKEN, verify

F = np.float32
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=80)


def draft_tokens_of(random, lengths, num_ids):
    """Runs of these lengths, whose draft tokens are some of `num_ids` ids."""
    ends = np.cumsum(lengths) - 1
    draft_tokens = random.integers(0, num_ids, ends[-1] + 1)
    draft_tokens[ends] = NO_DRAFT_TOKEN
    return draft_tokens


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LENGTHS, st.integers(0, 2**32 - 1), st.booleans())
def test_runs_of_any_lengths_over_several_blocks(one_device, lengths, seed, is_random):
    """Of two ids, so that about half of the draft tokens are accepted."""
    random = np.random.default_rng(seed)
    draft_tokens = draft_tokens_of(random, lengths, 2)
    logits = random.standard_normal((len(draft_tokens), 2)).astype(F)
    rest = parameters(random, len(draft_tokens), is_random)
    found = CudaSamplingOps(one_device).choose(one_device.upload(logits), RowSampling(*rest), draft_tokens)
    chosen = CudaSamplingOps(one_device).choose(one_device.upload(logits), RowSampling(*rest))
    assert found.dtype == np.int64
    assert found.tolist() == verify(chosen, draft_tokens).tolist()


def parameters(random, num, is_random=False):
    temperature = np.full(num, 1 if is_random else 0, F)
    words = random.integers(0, 2**64, num, dtype=np.uint64)
    return temperature, temperature * 0, np.full(num, 9), temperature * 0 + 1, words, words


@pytest.mark.parametrize("num_true", range(5))
def test_a_greedy_run_in_every_order_of_threads(device, num_true):
    random, vocab = np.random.default_rng(num_true), 701
    logits = random.standard_normal((600, vocab)).astype(F)
    best = logits.argmax(axis=1)
    draft_tokens = np.where(np.arange(600) % 5 == 4, NO_DRAFT_TOKEN, best)
    if num_true < 4:
        draft_tokens[num_true::5] = (best[num_true::5] + 1) % vocab
    on_device = device.upload(logits)
    chosen = CudaSamplingOps(device).choose(on_device, RowSampling(*parameters(random, 600)), draft_tokens)
    assert (
        chosen.tolist()
        == numpy_ops.choose(logits, RowSampling(*parameters(random, 600)), draft_tokens).tolist()
    )
    assert chosen.reshape(-1, 5).tolist() == [
        [*row[: num_true + 1], *[NO_TOKEN] * (4 - num_true)] for row in best.reshape(-1, 5).tolist()
    ]
    np.testing.assert_array_equal(on_device, logits)


def test_only_what_is_verified_comes_back(one_device, monkeypatch):
    """One copy of one number for each row."""
    copies = []
    download = one_device.download
    monkeypatch.setattr(
        one_device, "download", lambda array: copies.append((array.shape, array.dtype)) or download(array)
    )
    random = np.random.default_rng(0)
    logits = one_device.upload(random.standard_normal((6, 50)).astype(F))
    CudaSamplingOps(one_device).choose(
        logits, RowSampling(*parameters(random, 6, is_random=True)), draft_tokens_of(random, [2, 4], 50)
    )
    assert copies == [((6,), np.int64)]

"""Log-probabilities, ranks and alternatives of the kernel against numpy's."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops import numpy_ops
from ops.cuda.sampling import MAX_TOP, CudaSamplingOps

F = np.float32


def compare(device, logits, rows, tokens, k):
    on_device = device.upload(logits)
    gathered = CudaSamplingOps(device).gather_logprobs(on_device, rows, tokens, k)
    expected = numpy_ops.gather_logprobs(logits, rows, tokens, k)
    np.testing.assert_array_equal(on_device, logits)
    for column, other in zip(gathered, expected, strict=True):
        assert (column.dtype, column.shape) == (other.dtype, other.shape)
    assert gathered.ranks.tolist() == expected.ranks.tolist()
    assert gathered.top_ids.tolist() == expected.top_ids.tolist()
    within = {"rtol": 2e-6, "atol": 2e-6 + step_of_scale(logits)}
    np.testing.assert_allclose(gathered.chosen, expected.chosen, **within)
    np.testing.assert_allclose(gathered.top, expected.top, **within)


def step_of_scale(logits):
    """The distance of two float32 numbers at log(sum(exp(row))), which a log-probability is the difference to.

    Both round it to float32, the kernel its logarithm before: they may differ by one such step, however
    small the log-probability is.  Near a logit of 40 that is 3.8e-6.  2e-6 is for the sums themselves, whose
    float32 terms are exponentials of another library, in another order.
    """
    largest = np.abs(logits[np.isfinite(logits)]).max(initial=0) + np.log(logits.shape[1])
    return float(np.spacing(F(largest)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 4),
    st.sampled_from([1, 2, 30, 1023, 9000]),
    st.integers(0, MAX_TOP),
    st.sampled_from([0, 0.1, 1, 8]),
    st.integers(0, 2**32 - 1),
)
def test_they_are_those_of_numpy(one_device, num, vocab, k, scale, seed):
    random = np.random.default_rng(seed)
    logits = np.round(random.standard_normal((5, vocab)) * scale, 1).astype(F)
    logits[random.random(logits.shape) < 0.2] = -np.inf
    logits[:, 0] = random.choice(np.array([1.5, -0.0], F), 5)
    compare(one_device, logits, random.integers(0, 5, num), random.integers(0, vocab, num), min(k, vocab))


def test_a_real_vocabulary_in_all_orders_of_threads(device):
    random = np.random.default_rng(1)
    logits = (random.standard_normal((2, 151_936)) * 3).astype(F)
    compare(device, logits, np.array([1, 0, 1]), np.array([0, 151_935, int(logits[1].argmax())]), 20)


@pytest.mark.parametrize("value", [0.0, -3.5, -np.inf])
def test_equal_ids_stand_lowest_first(one_device, value):
    """Ties are parted by id, in the middle of a row of one value too."""
    logits = np.full((2, 20_000), value, F)
    logits[1, [19_999, 7]] = 1
    compare(one_device, logits, np.array([0, 1]), np.array([13_000, 13_000]), MAX_TOP)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_row_without_a_finite_maximum_has_no_chances(one_device, odd):
    logits = np.linspace(-2, 2, 50, dtype=F)[None].copy()
    logits[0, [4, 9]] = odd
    if odd == -np.inf:
        logits[:] = odd
    ops, rows, tokens = CudaSamplingOps(one_device), np.array([0]), np.array([4])
    gathered = ops.gather_logprobs(one_device.upload(logits), rows, tokens, 3)
    expected = numpy_ops.gather_logprobs(logits, rows, tokens, 3)
    assert gathered.chosen.tolist() == expected.chosen.tolist() == [-np.inf]
    assert gathered.top.tolist() == expected.top.tolist() == [[-np.inf] * 3]
    assert gathered.ranks.tolist() == expected.ranks.tolist()
    likeliest = {np.inf: [4, 9, 49], -np.inf: [0, 1, 2], np.nan: [49, 48, 47]}  # NaN stands last
    assert gathered.top_ids.tolist() == [
        next(ids for key, ids in likeliest.items() if key is odd or key == odd)
    ]


@pytest.mark.parametrize("k", [MAX_TOP + 1, 300])
def test_more_alternatives_than_the_kernel_finds_come_from_the_host(one_device, k):
    random = np.random.default_rng(2)
    logits = random.standard_normal((4, 300)).astype(F)
    one_device.launches.clear()
    compare(one_device, logits, np.array([3, 1]), np.array([0, 299]), k)
    assert one_device.launches == ["take_rows"]


def test_rows_that_were_taken_may_be_asked_and_a_wrong_token_is_refused(one_device):
    random = np.random.default_rng(3)
    logits = random.standard_normal((4, 300)).astype(F)
    ops = CudaSamplingOps(one_device)
    taken = ops.take(one_device.upload(logits), np.array([2, 0]))
    rows, tokens = np.array([1, 0]), np.array([5, 6])
    for k in (3, 100):
        gathered = ops.gather_logprobs(taken, rows, tokens, k)
        assert (
            gathered.top_ids.tolist()
            == numpy_ops.gather_logprobs(logits[[2, 0]], rows, tokens, k).top_ids.tolist()
        )
    with pytest.raises(IndexError, match="vocabulary"):
        ops.gather_logprobs(taken, rows, np.array([0, 300]), 1)


def test_single_ids_and_fetched_rows_equal_numpys(one_device):
    random = np.random.default_rng(4)
    logits = random.standard_normal((4, 300)).astype(F)
    ops, on_device = CudaSamplingOps(one_device), one_device.upload(logits)
    rows, ids = np.array([1, 1, 3]), np.array([5, 299, 0])
    np.testing.assert_allclose(
        ops.logprobs_of(on_device, rows, ids), numpy_ops.logprobs_of(logits, rows, ids), atol=1e-6
    )
    taken = ops.take(on_device, np.array([2, 0]))
    np.testing.assert_array_equal(ops.fetch(taken, np.array([1])), logits[[0]])

"""Changes of logits, bit by bit those of numpy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops import numpy_ops
from ops.cuda.sampling import CudaSamplingOps

F = np.float32
EVERY_TIME = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def entries(draw_from):
    """Logits with odd values, and pairs (row, id), each at most once."""
    num_rows, vocab = draw_from(st.integers(1, 5)), draw_from(st.sampled_from([1, 31, 32, 33, 100, 9000]))
    random = np.random.default_rng(draw_from(st.integers(0, 2**31)))
    logits = (random.standard_normal((num_rows, vocab)) * 4).astype(F)
    logits[random.random(logits.shape) < 0.1] = draw_from(st.sampled_from([0, -0.0, np.inf, -np.inf, np.nan]))
    count = draw_from(st.integers(0, min(600, logits.size)))
    rows, ids = np.divmod(random.permutation(logits.size)[:count], vocab)
    numbers = [random.choice(np.array([0, 0.1, 0.7, 1.3, 2, -0.5], F), count) for _ in range(3)]
    return logits, rows, ids, numbers, random


def both(device, logits, name, *args):
    on_device, expected = device.upload(logits), logits.copy()
    getattr(CudaSamplingOps(device), name)(on_device, *args)
    with np.errstate(all="ignore"):
        getattr(numpy_ops, name)(expected, *args)
    np.testing.assert_array_equal(on_device.view(np.uint32), expected.view(np.uint32))


@EVERY_TIME
@given(entries())
def test_single_logits_are_changed_as_numpy_changes_them(one_device, case):
    logits, rows, ids, numbers, _ = case
    both(one_device, logits, "add_bias", rows, ids, numbers[0])
    both(one_device, logits, "ban", np.tile(rows, 2), np.tile(ids, 2))
    both(one_device, logits, "allow_only", rows, ids)
    both(one_device, logits, "penalise_repetition", rows, ids, np.abs(numbers[0]) + F(0.3))
    both(one_device, logits, "penalise_presence_and_frequency", rows, ids, *np.round(numbers))


@EVERY_TIME
@given(entries(), st.integers(0, 2))
def test_bitmasks_leave_what_they_allow(one_device, case, spare_words):
    logits, _, _, _, random = case
    rows = random.permutation(len(logits))[: random.integers(0, len(logits) + 1)]
    words = -(-logits.shape[1] // 32)
    bits = random.integers(0, 2**32, (len(rows), words + spare_words), dtype=np.uint32)
    on_device, expected = one_device.upload(logits), logits.copy()
    CudaSamplingOps(one_device).apply_bitmask(on_device, rows, bits)
    numpy_ops.apply_bitmask(expected, rows, bits[:, :words])
    np.testing.assert_array_equal(on_device, expected)


@EVERY_TIME
@given(entries())
def test_rows_are_taken_in_any_order_and_more_than_once(one_device, case):
    logits, rows, *_ = case
    ops, on_device = CudaSamplingOps(one_device), one_device.upload(logits)
    np.testing.assert_array_equal(ops.take(on_device, rows), logits[rows])
    np.testing.assert_array_equal(ops.take(on_device, rows[:1]), logits[rows[:1]])
    np.testing.assert_array_equal(on_device, logits)


def test_all_orders_of_threads(device):
    random = np.random.default_rng(0)
    logits = random.standard_normal((3, 20_000)).astype(F)
    rows, ids = np.divmod(random.permutation(logits.size)[:5000], 20_000)
    both(device, logits, "allow_only", rows, ids)
    both(device, logits, "add_bias", rows, ids, random.standard_normal(5000).astype(F))
    bits = random.integers(0, 2**32, (2, 625), dtype=np.uint32)
    both(device, logits, "apply_bitmask", np.array([2, 0]), bits)


@pytest.mark.parametrize(("row", "token"), [(2, 0), (-1, 0), (1, 5), (0, -1)])
def test_what_lies_outside_the_logits_is_refused(one_device, row, token):
    logits, ops = one_device.zeros((2, 5), F), CudaSamplingOps(one_device)
    with pytest.raises(IndexError):
        ops.ban(logits, np.array([row]), np.array([token]))
    if token == 0:
        with pytest.raises(IndexError):
            ops.take(logits, np.array([row]))
        with pytest.raises(IndexError):
            ops.apply_bitmask(logits, np.array([row]), np.zeros((1, 1), np.uint32))


def test_logits_of_another_kind_are_refused(one_device):
    ops, logits = CudaSamplingOps(one_device), one_device.zeros((4, 6), F)
    assert ops.writable(logits[1:3]) is not None
    for other in (logits[:, :3], logits.view(np.uint32), logits[0]):
        with pytest.raises(TypeError, match="contiguous float32"):
            ops.writable(other)
    with pytest.raises(ValueError, match="bits"):
        ops.apply_bitmask(one_device.zeros((2, 33), F), np.array([0]), np.zeros((1, 1), np.uint32))

"""Bounds and short lists against full sorts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.candidates import PART_VALUES, at_least, floors, parts


@given(st.integers(1, 4), st.integers(1, 3000), st.integers(1, 400), st.integers(0, 2**32 - 1), st.booleans())
def test_a_floor_never_exceeds_the_wanted_value(num_rows, vocab, wanted, seed, coarse):
    values = np.random.default_rng(seed).standard_normal((num_rows, vocab), dtype=np.float32)
    if coarse:
        values = np.round(values)
    wanted = np.minimum(wanted + np.arange(num_rows), vocab)
    exact = [np.sort(row)[::-1][k - 1] for row, k in zip(values, wanted, strict=True)]
    assert (floors(values, wanted) <= exact).all()


def test_a_floor_is_close_when_few_are_wanted_of_many():
    values = np.random.default_rng(0).standard_normal((3, 150_000), dtype=np.float32)
    found = floors(values, np.array([1, 50, 256]))
    counts = (values >= found[:, None]).sum(axis=1)
    assert counts.tolist() <= [1, 60, 400]
    assert counts[0] == 1


def test_one_row_that_wants_everything_does_not_loosen_the_others():
    values = np.random.default_rng(0).standard_normal((2, 50_000), dtype=np.float32)
    found = floors(values, np.array([20, 50_000]))
    assert (values[0] >= found[0]).sum() < 40
    assert found[1] == -np.inf


def test_at_least_lists_ids_in_order_and_pads():
    values = np.array([[3, 1, 2, np.nan], [0, 0, 5, 0]], np.float32)
    ids, found = at_least(values, np.array([2, 4], np.float32), -1)
    assert ids.tolist() == [[0, 2, 3], [2, 0, 0]]
    np.testing.assert_array_equal(found, np.array([[3, 2, np.nan], [5, -1, -1]], np.float32))


@pytest.mark.parametrize(
    ("num_rows", "vocab"), [(0, 5), (1, 1), (70, 4096), (5, PART_VALUES * 2), (3, 151_936)]
)
def test_parts_cover_every_row_once(num_rows, vocab):
    covered = [row for part in parts(num_rows, vocab) for row in range(part.start, part.stop)]
    assert covered == list(range(num_rows))

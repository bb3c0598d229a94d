"""Columns and short lists against full sorts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.candidates import (
    PART_VALUES,
    column_maxima,
    entries_at_least,
    num_columns,
    pad_rows,
    row_slices,
    rows_at,
)

F = np.float32


@given(st.integers(1, 3000), st.integers(1, 400), st.integers(0, 2**32 - 1), st.sampled_from([0, 0.1, 1]))
def test_columns_bound_what_is_wanted_and_lists_hold_all_of_it(vocab, wanted, seed, odd):
    random = np.random.default_rng(seed)
    row = np.round(random.standard_normal(vocab) * 4).astype(F)
    row[random.random(vocab) < odd] = random.choice(np.array([np.inf, -np.inf, np.nan], F))
    columns = column_maxima(row, num_columns(vocab, wanted))
    np.testing.assert_array_equal(columns.max(), row.max())
    wanted = min(wanted, len(columns))
    floor = np.sort(columns)[-wanted]
    ids, values = entries_at_least(row, columns, floor)
    expected = [token for token, value in enumerate(row) if not value < floor]
    assert ids.tolist() == expected
    assert len(ids) >= wanted
    np.testing.assert_array_equal(values, row[expected])


def test_each_column_has_its_largest_value_the_incomplete_ones_too():
    row = np.array([3, 1, 2, 0, 5, 9, 8], F)
    assert column_maxima(row, 3).tolist() == [8, 5, 9]
    assert column_maxima(row[:6], 3).tolist() == [3, 5, 9]


def test_lists_are_short_when_few_are_wanted_of_many():
    row = np.random.default_rng(0).standard_normal(150_000, dtype=F)
    for wanted, most in [(1, 1), (50, 60), (256, 400)]:
        columns = column_maxima(row, num_columns(len(row), wanted))
        assert wanted <= len(entries_at_least(row, columns, np.sort(columns)[-wanted])[0]) <= most


def test_rows_of_any_length_are_padded_to_one():
    rows = [(np.array([4, 7]), np.array([1, 2], F)), (np.array([], np.int64), np.array([], F))]
    ids, values = pad_rows(rows, -1)
    assert ids.tolist() == [[4, 7], [0, 0]]
    assert values.tolist() == [[1, 2], [-1, -1]]


@pytest.mark.parametrize("rows", [[2], [1, 2, 3], [0, 2], [2, 1], [1, 1, 1], [0, 2, 2, 3], [3, 0]])
def test_rows_that_lie_side_by_side_are_not_copied(rows):
    values = np.arange(20, dtype=F).reshape(4, 5)
    found = rows_at(values, np.array(rows))
    np.testing.assert_array_equal(found, values[rows])
    assert np.shares_memory(found, values) == (rows in ([2], [1, 2, 3]))


@pytest.mark.parametrize(
    ("num_rows", "vocab"), [(0, 5), (1, 1), (70, 4096), (5, PART_VALUES * 2), (3, 151_936)]
)
def test_parts_cover_every_row_once(num_rows, vocab):
    covered = [row for part in row_slices(num_rows, vocab) for row in range(part.start, part.stop)]
    assert covered == list(range(num_rows))

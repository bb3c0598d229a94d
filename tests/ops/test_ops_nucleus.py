"""What top_k and top_p leave of whole rows of weights, against full sorts."""

import numpy as np
import pytest

from ops import nucleus as room
from ops.nucleus import heaviest, heaviest_blocks, keep_top_k, nucleus
from ops.token_weights import BLOCK, block_sums

F = np.float32
WIDTH = 160 * BLOCK


def whole_row(shape, seed):
    """Weights of a row and zeros up to whole blocks; the largest is 1."""
    random = np.random.default_rng(seed)
    logits = random.standard_normal(WIDTH - 9).astype(F)
    if shape == "peaked":
        logits = logits * 2
        logits[random.integers(0, len(logits), 20)] += 9
    if shape == "coarse":
        logits = np.round(logits * 16) / 16
    if shape == "equal":
        logits[:] = 3
    if shape == "mostly impossible":
        logits[random.random(len(logits)) < 0.99] = -np.inf
    if shape == "a pattern that sampling misses":
        logits[:: room.SAMPLED] -= 5
    if shape == "a pattern that sampling sees":
        logits[:: room.SAMPLED] += 5
    weights = np.zeros(WIDTH, F)
    weights[: len(logits)] = np.exp(logits - logits.max())
    return weights


def first(weights, size):
    kept = np.zeros_like(weights)
    order = np.argsort(-weights, kind="stable")[:size]
    kept[order] = weights[order]
    return kept


def size_of(weights, wanted):
    return np.count_nonzero(np.cumsum(np.sort(weights)[::-1], dtype=np.float64) < wanted) + 1


SHAPES = [
    "flat",
    "peaked",
    "coarse",
    "equal",
    "mostly impossible",
    "a pattern that sampling misses",
    "a pattern that sampling sees",
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [1e-6, 0.01, 0.3, 0.5, 0.9, 0.95, 0.999, 0.99999])
def test_a_nucleus_of_any_size_is_that_of_a_full_sort(shape, share):
    for seed in range(4):
        weights = whole_row(shape, seed)
        blocks = block_sums(weights)
        total = float(blocks.sum(dtype=np.float64))
        wanted = share * total
        sizes = range(size_of(weights, wanted - total * 3e-7), size_of(weights, wanted + total * 3e-7) + 1)
        kept = nucleus(weights, wanted, total)
        assert np.count_nonzero(kept) in sizes
        np.testing.assert_array_equal(kept, first(weights, np.count_nonzero(kept)))
        for floor in (0.5, 0.01):
            heavy = float(weights[weights >= floor].sum())
            if heavy < wanted:
                again = nucleus(weights, wanted, total, floor, heavy)
                assert np.count_nonzero(again) in sizes
                np.testing.assert_array_equal(again, first(weights, np.count_nonzero(again)))


def test_heavy_ids_lie_in_the_heaviest_blocks():
    weights = whole_row("peaked", 0)
    blocks, floor = heaviest_blocks(block_sums(weights))
    assert len(blocks) < WIDTH / BLOCK / 4
    assert set(np.flatnonzero(weights >= floor) // BLOCK) <= set(blocks.tolist())
    assert heaviest_blocks(block_sums(whole_row("equal", 0))) is None


@pytest.mark.parametrize("shape", ["flat", "coarse"])
def test_the_end_of_a_nucleus_is_found_without_sorting_the_row(shape, monkeypatch):
    sorted_sizes = []
    search = room.heaviest
    monkeypatch.setattr(room, "heaviest", lambda *some: sorted_sizes.append(len(some[0])) or search(*some))
    weights = whole_row(shape, 1)
    total = float(weights.sum())
    for share in (0.3, 0.8, 0.95):
        nucleus(weights, share * total, total)
    assert max(sorted_sizes) < WIDTH / 4


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_ids_are_those_of_a_full_sort(shape):
    weights = whole_row(shape, 5)
    for size in (1, 7, 300, WIDTH // 2, WIDTH - 10):
        np.testing.assert_array_equal(keep_top_k(weights, size), first(weights, size))


def test_weights_are_not_written_to():
    weights = whole_row("flat", 2)
    before = weights.copy()
    keep_top_k(weights, 40)
    nucleus(weights, 0.5 * float(weights.sum()), float(weights.sum()))
    np.testing.assert_array_equal(weights, before)


def test_the_heaviest_are_at_least_one_and_ties_go_to_the_first():
    weights = np.array([1, 3, 1, 3, 1], F)
    for wanted, kept in [
        (0, [1]),
        (3, [1]),
        (3.5, [1, 3]),
        (6.5, [0, 1, 3]),
        (8, [0, 1, 2, 3]),
        (99, range(5)),
    ]:
        assert np.flatnonzero(heaviest(weights, wanted)).tolist() == list(kept)

"""Choosing a token against plain loops over one row; evenness, ties, infinities; a row in any batch."""

import itertools

import numpy as np
import pytest
from breadth import after
from hypothesis import given
from hypothesis import strategies as st

from ops import sampling
from ops.random import uniforms
from ops.sampling import draw, draw_filtered, greedy

F = np.float32


def plain_weights(row, temperature):
    peak = row.max()
    if not np.isfinite(peak):
        return [float(value == peak or np.isnan(value)) for value in row]
    return [float(np.exp((value - peak) / F(temperature))) for value in row]


def plain_kept(weights, min_p, top_k, top_p):
    """Ids that stay, by walking down the list of ids sorted by weight."""
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    order = [token for token in order if weights[token] >= F(min_p)][:top_k]
    total, before, kept = sum_in_order(weights[token] for token in order), 0.0, []
    for token in order:
        if kept and top_p < 1 and before >= float(F(top_p)) * total:
            break
        kept.append(token)
        before += weights[token]
    return kept


def sum_in_order(numbers):
    """Like numpy's cumsum; Python's `sum` compensates rounding from 3.12 on."""
    return list(itertools.accumulate(numbers))[-1]


def plain_draw(weights, kept, uniform):
    kept = sorted(kept)
    sums = list(itertools.accumulate(weights[token] for token in kept))
    target = (float(uniform) + 2**-25) * sums[-1]
    return next(token for token, total in zip(kept, sums, strict=True) if total > target)


def column(values, dtype=np.float32):
    return np.array(values, dtype)


@st.composite
def batches(draw_from, finite=False):
    """Logits, coarse enough for ties, with infinities; one set of parameters and one uniform per row."""
    num_rows, vocab = draw_from(st.integers(1, 4)), draw_from(st.sampled_from([1, 2, 3, 17, 40]))
    numbers = st.integers(-6, 6).map(lambda n: n / 2) | st.floats(-30, 30, width=32)
    if not finite:
        numbers |= st.sampled_from([-np.inf, -np.inf, np.inf])
    flat = draw_from(st.lists(numbers, min_size=num_rows * vocab, max_size=num_rows * vocab))
    per_row = lambda some: draw_from(st.lists(some, min_size=num_rows, max_size=num_rows))  # noqa: E731
    return (
        column(flat).reshape(num_rows, vocab),
        column(per_row(st.sampled_from([0.01, 0.5, 1.0, 1.7]))),
        column(per_row(st.sampled_from([0.0, 0.05, 0.5, 1.0]))),
        column(per_row(st.sampled_from([1, 2, 5, vocab, vocab + 3])), np.int64),
        column(per_row(st.sampled_from([0.001, 0.3, 0.5, 0.9, 1.0]))),
        column(per_row(st.integers(0, 2**24 - 1).map(lambda n: n / 2**24))),
    )


@given(batches())
def test_greedy_takes_the_largest_and_the_lowest_of_equals(batch):
    logits = batch[0]
    expected = [max(range(logits.shape[1]), key=lambda token: (row[token], -token)) for row in logits]
    assert greedy(logits, np.arange(len(logits))).tolist() == expected
    assert greedy(logits, np.array([0])).tolist() == expected[:1]


@given(batches())
def test_filtered_rows_draw_what_the_plain_reference_draws(batch):
    logits, temperature, min_p, top_k, top_p, uniform = batch
    vocab = logits.shape[1]
    drawn = draw_filtered(logits, np.arange(len(logits)), temperature, min_p, top_k, top_p, uniform)
    for row, token in enumerate(drawn.tolist()):
        weights = plain_weights(logits[row], temperature[row])
        if top_k[row] < vocab or min_p[row] > 0:
            kept = plain_kept(weights, min_p[row], top_k[row], top_p[row])
            assert token == plain_draw(weights, kept, uniform[row])
        else:  # the total is summed in float32 blocks: allow its rounding at both borders
            shares = (top_p[row] * (1 + slack) if top_p[row] < 1 else 1 for slack in (-3e-6, 0, 3e-6))
            borders = itertools.product(shares, (-3e-6, 0, 3e-6))
            assert token in {
                plain_draw(
                    weights,
                    plain_kept(weights, 0, vocab, share),
                    np.clip(float(uniform[row]) + slack, 0, 1 - 2**-24),
                )
                for share, slack in borders
            }


@given(batches())
def test_free_rows_draw_what_the_plain_reference_draws(batch):
    logits, temperature, *_, uniform = batch
    found = draw(logits, np.arange(len(logits)), temperature, uniform)
    for row, token in enumerate(found.tolist()):
        weights = plain_weights(logits[row], temperature[row])
        near = (np.clip(float(uniform[row]) + slack, 0, 1 - 2**-24) for slack in (-3e-6, 0, 3e-6))
        assert token in {plain_draw(weights, range(len(weights)), one) for one in near}
        assert weights[token] > 0


@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0, 12.0])
@pytest.mark.parametrize("vocab", [255, 257, 5000, 33_333])
def test_top_p_keeps_exactly_the_nucleus_whether_it_is_small_or_large(vocab, scale):
    """Every drawn id lies in the nucleus, and the numbers near both ends reach its first and last id."""
    row = (np.random.default_rng(vocab).standard_normal(vocab) * scale).astype(F)
    nucleus = sorted(plain_kept(plain_weights(row, 1.0), 0, vocab, 0.8))
    uniform = column([0, 0.25, 0.5, 0.75, 1 - 2**-24])
    same = np.zeros(5, np.int64)
    drawn = draw_filtered(
        row[None], same, np.ones(5, F), np.zeros(5, F), same + vocab, np.full(5, 0.8, F), uniform
    )
    assert set(drawn.tolist()) <= set(nucleus)
    assert drawn[0] == nucleus[0]
    if scale < 1:
        assert drawn[-1] == nucleus[-1]


def test_top_k_of_many_finds_exactly_k_and_the_lowest_of_equals():
    row = np.round(np.random.default_rng(3).standard_normal(20_000) * 2).astype(F)
    expected = set(sorted(range(len(row)), key=lambda token: (-row[token], token))[:40])
    num = 3000
    uniform = (np.arange(num) / num).astype(F)
    same = np.zeros(num, np.int64)
    hot = np.full(num, 50, F)  # nearly even, so that every kept id is drawn
    found = draw_filtered(row[None], same, hot, np.zeros(num, F), same + 40, np.ones(num, F), uniform)
    assert set(found.tolist()) == expected


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7, 40.0])
@pytest.mark.parametrize("shape", ["normal", "coarse", "nearly equal", "large and nearly equal"])
def test_short_lists_of_a_large_vocabulary_keep_what_a_full_sort_keeps(shape, temperature):
    """Rounding of weights makes ties of logits that differ; the bound must not cut them off."""
    random, vocab, num = np.random.default_rng(5), 3000, 24
    row = random.standard_normal(vocab).astype(F)
    if shape == "coarse":
        row = np.round(row * 2)
    elif shape != "normal":
        base = F(1.0 if shape == "nearly equal" else 30_000.0)
        row = base + random.integers(-3, 3, vocab).astype(F) * np.spacing(base)
    weights, same = plain_weights(row, temperature), np.zeros(num, np.int64)
    uniform, full = random.random(num, dtype=F), lambda value: np.full(num, value, F)
    for min_p, top_k, top_p in [(0, 40, 1), (0, 300, 0.9), (0.3, vocab, 1), (0.05, 25, 0.7), (1, vocab, 1)]:
        drawn = draw_filtered(
            row[None], same, full(temperature), full(min_p), same + top_k, full(top_p), uniform
        )
        kept = plain_kept(weights, min_p, top_k, top_p)
        assert drawn.tolist() == [plain_draw(weights, kept, chance) for chance in uniform]


def test_the_smallest_number_does_not_draw_an_id_that_is_next_to_impossible():
    logits, rows, one = column([[-60, 3, 0]]), np.array([0]), np.ones(1, F)
    assert draw(logits, rows, one, one * 0).tolist() == [1]
    assert draw_filtered(logits, rows, one, one * 0, np.array([3]), one * F(0.9999), one * 0).tolist() == [1]


def test_rows_that_are_not_named_are_not_read():
    logits = np.full((4, 50), np.nan, F)
    logits[2] = np.arange(50)
    rows, one = np.array([2]), np.ones(1, F)
    assert greedy(logits, rows).tolist() == [49]
    assert draw(logits, rows, one * F(0.01), one * 0).tolist() == [49]
    assert draw_filtered(logits, rows, one, one * 0, np.array([1]), one, one * 0).tolist() == [49]


def test_logits_are_not_written_to():
    logits = np.random.default_rng(0).standard_normal((3, 3000), dtype=F)
    before, rows, half = logits.copy(), np.arange(3), np.full(3, 0.5, F)
    draw(logits, rows, half, half)
    draw_filtered(logits, rows, half, column([0, 0.1, 0]), np.array([3000, 3000, 9]), half, half)
    np.testing.assert_array_equal(logits, before)


def test_no_rows_give_no_tokens():
    logits, none, rows = np.zeros((0, 7), F), np.zeros(0, F), np.zeros(0, np.int64)
    assert greedy(logits, rows).tolist() == []
    assert draw(logits, rows, none, none).tolist() == []
    assert draw_filtered(logits, rows, none, none, rows, none, none).tolist() == []


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_row_without_a_finite_maximum_draws_evenly_among_its_maxima(odd):
    logits = np.full((1, 9), -np.inf, F)
    logits[0, [3, 6]] = odd
    weights = plain_weights(logits[0], 1.0)
    assert sum(weights) == (2 if odd != -np.inf else 9)
    rows, ones = np.array([0]), np.ones(1, F)
    for uniform in (0, 0.3, 0.6, 0.99):
        u = ones * F(uniform)
        assert draw(logits, rows, ones, u)[0] == plain_draw(weights, range(9), uniform)
        for min_p, top_k, top_p in [(0, 8, 1), (0.1, 9, 1), (0, 9, 0.9), (0.1, 1, 0.5)]:
            drawn = draw_filtered(logits, rows, ones, ones * F(min_p), np.array([top_k]), ones * F(top_p), u)
            assert drawn[0] == plain_draw(weights, plain_kept(weights, min_p, top_k, top_p), uniform)


@pytest.mark.parametrize("top_k", [5, 50])
def test_top_p_of_nothing_leaves_the_likeliest(top_k):
    logits, rows, one = np.linspace(1, 0, 50, dtype=F)[None], np.array([0]), np.ones(1, F)
    assert draw_filtered(logits, rows, one, one * 0, np.array([top_k]), one * 0, one * F(0.7)).tolist() == [0]


CASES = {
    "free": (0.0, 6, 1.0),
    "top_k": (0.0, 3, 1.0),
    "top_p": (0.0, 6, 0.7),
    "min_p": (0.2, 6, 1.0),
    "all": (0.05, 4, 0.9),
}


@pytest.mark.parametrize("name", CASES)
def test_drawn_ids_are_distributed_as_their_weights(name):
    min_p, top_k, top_p = CASES[name]
    row, num, temperature = column([0.1, 2.0, -1.0, 1.5, 0.0, 1.4]), 16_000, 1.3
    weights = plain_weights(row, temperature)
    kept = plain_kept(weights, min_p, top_k, top_p)
    uniform = uniforms(np.full(num, 11, np.uint64), np.arange(num, dtype=np.uint64))
    same, full = np.zeros(num, np.int64), lambda value: np.full(num, value, F)
    if name == "free":
        drawn = draw(row[None], same, full(temperature), uniform)
    else:
        drawn = draw_filtered(
            row[None], same, full(temperature), full(min_p), same + top_k, full(top_p), uniform
        )
    counts = np.bincount(drawn, minlength=6)
    assert counts.sum() == counts[kept].sum()
    expected = np.array([weights[token] for token in kept]) / sum(weights[token] for token in kept) * num
    assert (
        (counts[kept] - expected) ** 2 / expected
    ).sum() < 25.7  # chi-square, at most 5 degrees, p >= 0.0001


def test_sums_over_a_large_vocabulary_stay_exact():
    """Each drawn id is where float64 finds it, within a rounding of float32; a float32 running sum is not."""
    random, num = np.random.default_rng(2), 50
    row, uniform = random.random(2_000_003, dtype=F), random.random(num, dtype=F)
    found = draw(row[None], np.zeros(num, np.int64), np.ones(num, F), uniform)
    sums = np.cumsum(np.exp(row - row.max()), dtype=np.float64)
    shares = uniform.astype(np.float64) + 2**-25
    assert (sums[found] / sums[-1] > shares - 3e-7).all()
    assert (sums[found - 1] / sums[-1] < shares + 3e-7).all()


def test_the_largest_number_draws_an_id_that_has_weight():
    """Where float32 rounds the sum of a block up, nothing behind its last possible id is drawn."""
    for seed in range(200):
        logits = np.random.default_rng(seed).standard_normal((1, 200)).astype(F)
        logits[0, 150:] = -np.inf
        one = np.ones(1, F)
        assert draw(logits, np.array([0]), one, one * F(1 - 2**-24))[0] < 150


@pytest.mark.parametrize("vocab", [1, 31, 257, 4096, 40_001])
def test_a_row_draws_bit_by_bit_the_same_alone_and_in_any_batch(vocab, monkeypatch):
    """Sums and tokens: the row alone, in a batch, at another place, and in other parts."""
    num = 24
    random = np.random.default_rng(vocab)
    logits = (random.standard_normal((num, vocab)) * random.uniform(0, 5, (num, 1))).astype(F)
    temperature = random.choice(column([0.3, 1.0, 1.4]), num)
    min_p, top_p = random.choice(column([0, 0, 0.01]), num), random.choice(column([0.5, 0.95, 0.999, 1]), num)
    top_k = random.choice(np.array([3, 40, 300, vocab // 2, vocab, vocab]), num).clip(1, vocab)
    uniform = random.random(num, dtype=F)
    sums = []
    find = sampling.find_blocks
    monkeypatch.setattr(
        sampling,
        "find_blocks",
        lambda chosen_blocks, chances: sums.append(chosen_blocks) or find(chosen_blocks, chances),
    )

    def tokens(order, part_values):
        monkeypatch.setattr("ops.candidates.PART_VALUES", part_values)
        sums.clear()
        free = draw(logits, order, temperature[order], uniform[order])
        totals = np.concatenate(sums)
        some = draw_filtered(
            logits, order, temperature[order], min_p[order], top_k[order], top_p[order], uniform[order]
        )
        return [free, some, *totals.T]

    together = tokens(np.arange(num), 2**17)
    backwards = tokens(np.arange(num)[::-1], vocab * 5)
    alone = [tokens(np.array([row]), 2**17) for row in range(num)]
    for i, values in enumerate(together):
        np.testing.assert_array_equal(values, backwards[i][::-1])
        np.testing.assert_array_equal(values, [row[i][0] for row in alone])


SHAPES = ["flat", "peaked", "coarse", "equal", "mostly impossible", "impossible", "infinite", "nan"]


def shaped(shape, vocab):
    random = np.random.default_rng(vocab)
    row = random.standard_normal(vocab).astype(F)
    some = random.integers(0, vocab, 9)
    if shape == "peaked":
        row[some] += 12
    if shape == "coarse":  # as a model in bfloat16 gives them
        row = (row.view(np.uint32) & 0xFFFF0000).view(F)
    if shape == "equal":
        row[:] = 2
    if "impossible" in shape:
        row[random.random(vocab) < (0.99 if shape.startswith("mostly") else 2)] = -np.inf
    if shape in ("infinite", "nan"):
        row[some] = F(shape[:3])
    return row


def expect_drawn(row, token, temperature, min_p, top_k, top_p, uniform):
    """The token stays, and the uniform number falls on it; both but for the rounding of float32 sums."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(row.max())
        weights = np.exp((row - row.max()) / F(temperature)) if finite else (row == row.max()) | np.isnan(row)
    weights = np.asarray(weights, F)
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] >= F(min_p)][:top_k]
    sums = np.cumsum(weights[order], dtype=np.float64)
    places = [
        np.count_nonzero(sums < float(F(top_p)) * sums[-1] * (1 + slack)) + 1 for slack in (-3e-7, 3e-7)
    ]
    kept = order if top_p == 1 else order[: places[1]]
    assert token in kept
    running = np.zeros(len(row))
    running[kept] = weights[kept]
    before = running[:token].sum()
    target = (float(uniform) + 2**-25) * running.sum()
    slack = running.sum() * 3e-7 + (sums[min(places[1], len(sums)) - 1] - sums[min(places[0], len(sums)) - 1])
    assert before - slack <= target <= before + running[token] + slack
    assert running[token] > 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("vocab", after(3, [7, 255, 5000, 151_936, 33_333]))
def test_every_mix_of_parameters_on_every_shape_of_row(shape, vocab):
    row = shaped(shape, vocab)
    limits = itertools.product([0, 0.001, 0.2], [vocab, vocab // 2 + 1, 40, 1], [1, 0.95, 0.3])
    cases = list(limits) if vocab < 150_000 else list(limits)[::4]
    num = len(cases)
    min_p, top_k, top_p = (np.array(some) for some in zip(*cases, strict=True))
    top_k = top_k.clip(1, vocab)
    random = np.random.default_rng(0)
    temperature, uniform = random.choice(column([0.7, 1, 1.3]), num), random.random(num, dtype=F)
    batch = np.broadcast_to(row, (num, vocab))
    drawn = draw_filtered(
        batch, np.arange(num), temperature, min_p.astype(F), top_k, top_p.astype(F), uniform
    )
    for i, token in enumerate(drawn.tolist()):
        expect_drawn(row, token, temperature[i], min_p[i], top_k[i], top_p[i], uniform[i])
    free = draw(batch, np.arange(num), temperature, uniform)
    for i, token in enumerate(free.tolist()):
        expect_drawn(row, token, temperature[i], 0, vocab, 1, uniform[i])

"""Tokens of the kernels: exactly those of a plain reference with the same exponential, and numpy's beside it."""

import ctypes
import math

import numpy as np
import pytest
from breadth import after
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops import numpy_ops
from ops.contract import RowSampling
from ops.cuda.sampling import MAX_VOCAB, CudaSamplingOps
from ops.random import uniforms

F = np.float32
EVERY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TINY = np.finfo(F).tiny

exponential = ctypes.CDLL("libm.so.6").expf
exponential.argtypes, exponential.restype = [ctypes.c_float], ctypes.c_float


def plain_weights(row, temperature):
    """As `ops.sampling` says, with the C library's exponential, which the host's kernels use."""
    with np.errstate(all="ignore"):
        peak = row.max()
        if not np.isfinite(peak):
            return ((row == peak) | np.isnan(row)).astype(F).tolist()
        scaled = (row - peak) / F(temperature)
    return [F(exponential(value)) for value in scaled]


def mass(weight):
    return math.floor(float(weight) * 2**43) if weight >= TINY else 0


def plain_choice(row, temperature, min_p, top_k, top_p, uniform):
    """Ids sorted by weight, walked down with whole numbers, then walked through in the order of ids."""
    if temperature == 0:
        return int(row.argmax())
    weights = plain_weights(row, temperature)
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    kept = [token for token in order if weights[token] >= F(min_p) and weights[token] > 0][:top_k]
    if top_p < 1:
        wanted = max(1, math.ceil(float(F(top_p)) * float(sum(mass(weights[token]) for token in kept))))
        sums = np.cumsum([mass(weights[token]) for token in kept], dtype=np.uint64)
        kept = kept[: np.count_nonzero(sums < wanted) + 1]
    kept.sort()
    total = sum(mass(weights[token]) for token in kept)
    target, running = math.floor((float(uniform) + 2**-25) * float(total)), 0
    for token in kept:
        running += mass(weights[token])
        if running > target:
            return token
    raise AssertionError("the target lies below the total")


def parameters(random, num, vocab):
    """Of all kinds of rows: greedy, free, and limited by one, two or three filters."""
    return (
        random.choice(np.array([0, 0.3, 1, 1, 1.7, 40], F), num),
        random.choice(np.array([0, 0, 0, 0.05, 0.3, 1], F), num),
        random.choice(np.array([1, 2, 5, 40, vocab, vocab, 2**31 - 1]), num),
        random.choice(np.array([0, 0.3, 0.5, 0.95, 0.999, 1, 1, 1], F), num),
        random.integers(0, 2**64, num, dtype=np.uint64),
        random.integers(0, 5000, num).astype(np.uint64),
    )


def choose(device, logits, *rest):
    on_device = device.upload(logits)
    found = CudaSamplingOps(device).choose(on_device, RowSampling(*rest))
    np.testing.assert_array_equal(on_device, logits)
    assert found.dtype == np.int64
    return found


def expect_plain(found, logits, temperature, min_p, top_k, top_p, keys, counters):
    chances = uniforms(keys, counters)
    for i, row in enumerate(logits):
        one = temperature[i], min_p[i], top_k[i], top_p[i], chances[i]
        assert found[i] == plain_choice(row, *one), (i, one)


@st.composite
def batches(draw_from):
    """Logits, coarse enough for ties, with infinities and NaN; parameters of each row."""
    num_rows, vocab = draw_from(st.integers(1, 3)), draw_from(st.sampled_from([1, 2, 3, 17, 40]))
    numbers = st.integers(-6, 6).map(lambda n: n / 2) | st.floats(-30, 30, width=32)
    numbers |= st.sampled_from([-np.inf, -np.inf, np.inf, np.nan, 3e38, -3e38, 1e-40])
    flat = draw_from(st.lists(numbers, min_size=num_rows * vocab, max_size=num_rows * vocab))
    per_row = lambda some, kind: np.array(  # noqa: E731
        draw_from(st.lists(some, min_size=num_rows, max_size=num_rows)), kind
    )
    return (
        np.array(flat, F).reshape(num_rows, vocab),
        per_row(st.sampled_from([0, 1e-6, 0.01, 0.5, 1.0, 1.7, 1e6]), F),
        per_row(st.sampled_from([0.0, 0.0, 1e-30, 0.05, 0.5, 1.0]), F),
        per_row(st.sampled_from([1, 2, 5, vocab, vocab + 3]), np.int64),
        per_row(st.sampled_from([0.0, 0.001, 0.3, 0.5, 0.9, 1.0, 1.0]), F),
        per_row(st.integers(0, 2**64 - 1), np.uint64),
        per_row(st.integers(0, 2**64 - 1), np.uint64),
    )


@EVERY_TIME
@given(batches())
def test_small_rows_of_any_kind_choose_what_the_plain_reference_chooses(one_device, batch):
    expect_plain(choose(one_device, *batch), *batch)


@pytest.mark.parametrize("vocab", after(3, [1, 50, 8193, 1000, 8192, 20_000]))
def test_rows_of_all_lengths_in_all_orders_of_threads(device, vocab):
    random, num = np.random.default_rng(vocab), 9
    logits = (random.standard_normal((num, vocab)) * random.choice([0, 0.5, 3, 12], (num, 1))).astype(F)
    logits[:2] = np.round(logits[:2])
    logits[2, random.random(vocab) < 0.5] = -np.inf
    batch = logits, *parameters(random, num, vocab)
    expect_plain(choose(device, *batch), *batch)


@pytest.mark.parametrize(("vocab", "num"), after(1, [(257, 30), (257, 300), (50, 400), (2000, 300)]))
def test_hundreds_of_rows_draw_what_numpy_draws(one_device, vocab, num):
    """Where numpy's exponential or its sums round otherwise near a border, one in thousands may differ."""
    random = np.random.default_rng(vocab)
    logits = (random.standard_normal((num, vocab)) * random.uniform(0.5, 6, (num, 1))).astype(F)
    batch = logits, *parameters(random, num, vocab)
    assert (
        np.count_nonzero(choose(one_device, *batch) != numpy_ops.choose(batch[0], RowSampling(*batch[1:])))
        <= 1
    )


@pytest.mark.parametrize("vocab", [1, 40, 8193])
def test_the_likeliest_of_rows_is_what_greedy_rows_choose(one_device, vocab):
    logits = np.round(np.random.default_rng(vocab).standard_normal((5, vocab))).astype(F)  # with ties
    logits[1, vocab // 2 :] = np.nan
    greedy = np.zeros(5, F), np.zeros(5, F), np.ones(5, np.int64), np.ones(5, F), *np.zeros((2, 5), np.uint64)
    on_device = one_device.upload(logits)
    found = CudaSamplingOps(one_device).likeliest(on_device).tolist()
    assert found == choose(one_device, logits, *greedy).tolist()
    assert found == numpy_ops.likeliest(logits).tolist()
    assert CudaSamplingOps(one_device).likeliest(on_device[:0]).tolist() == []


def test_a_real_vocabulary(one_device):
    random, vocab, num = np.random.default_rng(7), 151_936, 10
    logits = (random.standard_normal((num, vocab)) * 3).astype(F)
    batch = [logits, *parameters(random, num, vocab)]
    batch[1][:] = [0, 1, 1, 1, 1, 0.7, 1, 1, 1.5, 1]
    batch[3][:] = [1, vocab, 50, 20, vocab, vocab, 100_000, vocab, vocab, vocab]
    batch[4][:] = [1, 1, 1, 0.95, 0.95, 0.8, 0.9999, 1, 0.999, 0.5]
    assert choose(one_device, *batch).tolist() == numpy_ops.choose(batch[0], RowSampling(*batch[1:])).tolist()


@pytest.mark.parametrize("exponents", after(1, [range(0, 128, 25), range(128)]), ids=["some", "every one"])
def test_the_mass_of_a_bin_is_exactly_the_sum_of_its_weights(one_device, exponents):
    """For every exponent, whatever is lost to the right, up to the fullest bins."""
    device, random = one_device, np.random.default_rng(0)
    masses = device.zeros(2, np.uint64)
    for exponent in exponents:
        for low_bits, count in [(19, 8192), (9, 8192), (0, 7), (19, 1)]:
            spread = random.integers(0, 2**low_bits, count)
            first = exponent << 23 | random.integers(0, 2**23) >> low_bits << low_bits
            bits = np.minimum(first + spread, 0x3F800000).astype(np.uint32)
            device.launch(
                "compare_masses", 1, 1, device.upload(bits), np.int32(count), np.int32(low_bits), masses
            )
            assert masses[0] == masses[1], (exponent, low_bits)
            weights = bits.view(F).astype(np.float64)
            plain = np.where(weights >= TINY, np.floor(weights * 2**43), 0).astype(np.uint64)
            assert int(masses[0]) == plain.sum()


@pytest.mark.parametrize("temperature", after(1, [1.0, 0.3, 40.0]))
@pytest.mark.parametrize("shape", ["coarse", "nearly equal", "large and nearly equal", "equal"])
def test_ties_and_what_rounding_ties_go_to_the_lowest_ids(one_device, shape, temperature):
    """Weights may be equal where logits are not: neither bounds nor bins may part them."""
    random, vocab = np.random.default_rng(5), 9000
    row = np.round(random.standard_normal(vocab) * 2).astype(F)
    if shape != "coarse":
        base = F(1.0 if shape == "nearly equal" else 30_000.0)
        row = base + random.integers(-3, 3, vocab).astype(F) * np.spacing(base) * F(shape != "equal")
    cases = [
        (0, 40, 1),
        (0, 8500, 0.9),
        (0.3, vocab, 1),
        (0.05, 25, 0.7),
        (1, vocab, 1),
        (0, vocab, 0.6),
        (0, vocab, 0.99999),
    ]
    min_p, top_k, top_p = (np.array(column) for column in zip(*cases, strict=True))
    num = len(cases)
    keys, counters = np.full(num, 3, np.uint64), np.arange(num, dtype=np.uint64)
    batch = (
        np.tile(row, (num, 1)),
        np.full(num, temperature, F),
        min_p.astype(F),
        top_k,
        top_p.astype(F),
        keys,
        counters,
    )
    expect_plain(choose(one_device, *batch), *batch)


def test_a_row_chooses_the_same_alone_and_in_any_batch(one_device):
    random, num, vocab = np.random.default_rng(11), 24, 9000
    logits = (random.standard_normal((num, vocab)) * 2).astype(F)
    rest = parameters(random, num, vocab)
    together = choose(one_device, logits, *rest)
    order = random.permutation(num)
    shuffled = choose(one_device, logits[order], *(column[order] for column in rest))
    assert shuffled.tolist() == together[order].tolist()
    for row in range(0, num, 3):
        own_row = slice(row, row + 1)
        assert choose(one_device, logits[own_row], *(some[own_row] for some in rest)).tolist() == [
            together[row]
        ]


def test_every_top_k_from_one_to_all(one_device):
    vocab = 300
    row = np.round(np.random.default_rng(3).standard_normal(vocab) * 2, 1).astype(F)
    top_k = np.arange(1, vocab + 1, 13)
    num = len(top_k)
    full = lambda value: np.full(num, value, F)  # noqa: E731
    keys, counters = np.arange(num, dtype=np.uint64), np.full(num, 2, np.uint64)
    batch = np.tile(row, (num, 1)), full(30), full(0), top_k, full(1), keys, counters
    expect_plain(choose(one_device, *batch), *batch)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_row_without_a_finite_maximum_chooses_as_numpy_does(one_device, odd):
    vocab, num = 9000, 10
    logits = np.full((num, vocab), -np.inf, F)
    logits[1::2] = np.linspace(-5, 5, vocab) if odd != -np.inf else -np.inf
    logits[:, [3, 600, 8999]] = odd
    same = np.tile(np.arange(num // 2), (2, 1)).T.reshape(-1)
    temperature, min_p = np.array([0, 1, 1, 0.5, 1], F)[same], np.array([0, 0, 0.1, 0, 0], F)[same]
    top_k, top_p = np.array([1, vocab, vocab, 2, vocab])[same], np.array([1, 1, 1, 0.9, 0.5], F)[same]
    keys, counters = np.arange(num, dtype=np.uint64), np.zeros(num, np.uint64)
    batch = logits, temperature, min_p, top_k, top_p, keys, counters
    assert choose(one_device, *batch).tolist() == numpy_ops.choose(batch[0], RowSampling(*batch[1:])).tolist()


def test_greedy_rows_alone_need_neither_parameters_nor_weights(one_device):
    logits = one_device.upload(np.random.default_rng(0).standard_normal((40, 9000)).astype(F))
    nothing, count = np.zeros(40, F), np.zeros(40, np.int64)
    one_device.launches.clear()
    words = count.astype(np.uint64)
    rows = RowSampling(nothing, nothing, count + 1, nothing + 1, words, words)
    found = CudaSamplingOps(one_device).choose(logits, rows)
    assert one_device.launches == ["find_peaks", "take_peaks"]
    assert found.tolist() == logits.argmax(axis=1).tolist()


def test_the_smallest_and_the_largest_number_draw_no_id_that_is_next_to_impossible(one_device):
    """A number means the middle of its step of 2**-24: less than half a step's weight beside it is never met."""
    some = np.array([14_883_995, 38_471_471], np.uint64)
    assert uniforms(some * np.uint64(0), some).tolist() == [0, 1 - 2**-24]
    one, count = np.ones(2, F), np.full(2, 4)
    for light in (-20, -60):
        logits = np.array([[light, 3, 2, light]] * 2, F)
        found = choose(one_device, logits, one, one * 0, count, one, some * np.uint64(0), some)
        assert found.tolist() == [1, 2]


def test_no_rows_give_no_tokens_and_no_vocabulary_is_refused(one_device):
    none, count = np.zeros(0, F), np.zeros(0, np.int64)
    rest = none, none, count, none, count.astype(np.uint64), count.astype(np.uint64)
    assert CudaSamplingOps(one_device).choose(one_device.empty((0, 7), F), RowSampling(*rest)).tolist() == []
    for vocab in (0, MAX_VOCAB + 1):
        with pytest.raises(ValueError, match="vocabulary"):
            CudaSamplingOps(one_device).choose(one_device.empty((0, vocab), F), RowSampling(*rest))


def test_nothing_is_allocated_for_a_batch_that_was_reserved(one_device, monkeypatch):
    random, vocab = np.random.default_rng(0), 500
    ops = CudaSamplingOps(one_device)
    logits = one_device.upload(random.standard_normal((12, vocab)).astype(F))
    ops.reserve(12, vocab)
    monkeypatch.setattr(one_device, "empty", None)
    for num in (3, 12, 1):
        ops.choose(logits[:num], RowSampling(np.ones(num, F), *parameters(random, num, vocab)[1:]))
        ops.take(logits, np.arange(num))

"""Kernels of sampling on random logits: the device's results compared with numpy's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops import numpy_ops
from ops.contract import RowSampling
from ops.draft_verification import NO_DRAFT_TOKEN
from ops.random import uniforms
from ops.sampling import draw, draw_filtered
from tools.lab.gpu_check.correctness.sizes import SIZES, Size

Floats = NDArray[np.float32]
OFF = 2**31 - 1
"""A top_k without effect."""


def cuda_ops(device: Any) -> Any:
    from ops.cuda.sampling import CudaSamplingOps

    return CudaSamplingOps(device)


def assert_close(given: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    np.testing.assert_allclose(given, expected, rtol=rtol, atol=atol)


def random_logits(size: Size, seed: int) -> Floats:
    """Normal logits with ties and impossible ids; the first row flat, the second peaked."""
    return _logits(size, seed).copy()


@functools.lru_cache(maxsize=2)
def _logits(size: Size, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    logits = (4 * rng.standard_normal((size.rows, size.vocab))).astype(np.float32)
    logits[:, rng.integers(0, size.vocab, 5)] = -np.inf
    logits[-1] = np.round(logits[-1])  # ties
    logits[0] = 0
    logits[min(1, size.rows - 1), size.vocab // 2] = 60
    return logits


def odd_logits(size: Size, seed: int) -> Floats:
    """Rows without a finite largest value: infinity twice, NaN, all impossible."""
    logits = random_logits(size, seed)
    logits[0] = -np.inf
    logits[1 % size.rows, [3, 50]] = np.inf
    logits[2 % size.rows, 7] = np.nan
    return logits


def _pairs(size: Size, seed: int, per_row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct (row, id) pairs in every other row, the last ids of the vocabulary among them."""
    rng = np.random.default_rng(seed)
    rows = np.arange(0, size.rows, 2)
    count = min(per_row, size.vocab)
    ids = [rng.permutation(size.vocab)[:count] for _ in rows]
    ids[0][0] = size.vocab - 1 if size.vocab - 1 not in ids[0] else ids[0][0]
    return np.repeat(rows, count), np.concatenate(ids).astype(np.int64)


Edit = Callable[[Any, Any], None]
"""(ops, logits) → logits changed in place."""


def edits(size: Size) -> Iterator[tuple[str, Edit]]:
    rng = np.random.default_rng(11)
    rows, ids = _pairs(size, 1, 37)
    penalties, two, three = (rng.uniform(0.2, 2, len(rows)).astype(np.float32) for _ in range(3))
    counts = rng.integers(0, 4, len(rows)).astype(np.float32)
    masked = np.arange(0, size.rows, 2)
    bits = rng.integers(0, 2**32, (len(masked), -(-size.vocab // 32)), np.uint32)
    yield "ban", lambda ops, logits: ops.ban(logits, rows, ids)
    yield "allow_only", lambda ops, logits: ops.allow_only(logits, rows, ids)
    yield "add_bias", lambda ops, logits: ops.add_bias(logits, rows, ids, penalties)
    yield "apply_bitmask", lambda ops, logits: ops.apply_bitmask(logits, masked, bits)
    yield "penalise_repetition", lambda ops, logits: ops.penalise_repetition(logits, rows, ids, penalties)
    yield (
        "penalise_presence_and_frequency",
        lambda ops, logits: ops.penalise_presence_and_frequency(logits, rows, ids, counts, two, three),
    )


EDITS = tuple(name for name, _ in edits(SIZES["tiny"]))


def check_edit(name: str, device: Any, size: Size) -> None:
    edit = dict(edits(size))[name]
    expected = random_logits(size, 5)
    logits = device.upload(expected)
    edit(numpy_ops, expected)
    edit(cuda_ops(device), logits)
    assert_close(device.download(logits), expected, rtol=2e-7, atol=2e-6)


def check_take(device: Any, size: Size) -> None:
    logits = random_logits(size, 6)
    rows = np.array([size.rows - 1, 0, size.rows // 2])
    assert_close(device.download(cuda_ops(device).take(device.upload(logits), rows)), logits[rows])


# Choosing


def choices(size: Size) -> Iterator[tuple[str, RowSampling]]:
    """Each sampling method alone, then all in one step."""
    rng = np.random.default_rng(3)
    n = size.rows
    keys, counters = rng.integers(0, 2**63, n, np.uint64), rng.integers(0, 5000, n, np.uint64)
    temperature = rng.uniform(0.3, 1.7, n).astype(np.float32)
    none, ones = np.zeros(n, np.float32), np.ones(n, np.float32)
    off = np.full(n, OFF, np.int64)
    few = rng.integers(1, min(100, size.vocab), n)
    share = rng.uniform(0.05, 0.99, n).astype(np.float32)
    floor = rng.uniform(0.001, 0.3, n).astype(np.float32)
    yield "greedy", RowSampling(none, none, off, ones, keys, counters)
    yield "temperature", RowSampling(temperature, none, off, ones, keys, counters)
    yield "top_k", RowSampling(temperature, none, few, ones, keys, counters)
    yield "top_k of one", RowSampling(temperature, none, np.ones(n, np.int64), ones, keys, counters)
    yield "top_p", RowSampling(temperature, none, off, share, keys, counters)
    yield "top_p of none", RowSampling(temperature, none, off, none, keys, counters)
    yield "min_p", RowSampling(temperature, floor, off, ones, keys, counters)
    yield "all filters", RowSampling(temperature, floor, few, share, keys, counters)
    which = np.arange(n) % 4
    yield (
        "mixed",
        RowSampling(
            np.where(which == 0, none, temperature),
            np.where(which == 3, floor, none),
            np.where(which == 2, few, off),
            np.where(which == 1, share, ones),
            keys,
            counters,
        ),
    )


CHOICES = tuple(name for name, _ in choices(SIZES["tiny"]))
NEAR = (0.0, -2e-5, 2e-5)
"""Small changes of a uniform number or a share, within which a differently rounded sum may choose another
token.
"""


def check_choice(name: str, logits: Floats, device: Any, size: Size) -> None:
    """Tokens must be equal, except where a slightly different number would choose the device's token."""
    choice = dict(choices(size))[name]
    with np.errstate(all="ignore"):
        expected = numpy_ops.choose(logits, choice)
    chosen = np.asarray(cuda_ops(device).choose(device.upload(logits), choice))
    unlike = np.flatnonzero(chosen != expected)
    wrong = [row for row in unlike.tolist() if not _is_near(logits, choice, row, int(chosen[row]))]
    if wrong:
        row = wrong[0]
        raise AssertionError(
            f"{len(wrong)} of {size.rows} rows: row {row} gives {chosen[row]} for {expected[row]} "
            f"(temperature {choice.temperature[row]}, min_p {choice.min_p[row]}, top_k {choice.top_k[row]}, "
            f"top_p {choice.top_p[row]})"
        )
    if len(unlike) > max(1, size.rows // 50):
        raise AssertionError(f"{len(unlike)} of {size.rows} rows differ: more than rounding explains")


def _is_near(logits: Floats, choice: RowSampling, row: int, token: int) -> bool:
    if choice.temperature[row] == 0:
        return False
    rows, at = np.array([row]), slice(row, row + 1)
    chance = uniforms(choice.keys[at], choice.counters[at])
    for change in NEAR:
        moved = np.clip(chance + np.float32(change), 0, np.float32(1 - 2.0**-24)).astype(np.float32)
        if draw(logits, rows, choice.temperature[at], moved)[0] == token:
            return True
        for more in NEAR:
            share = np.clip(choice.top_p[at] + np.float32(more), 0, 1).astype(np.float32)
            floor = (choice.min_p[at] * np.float32(1 + more)).astype(np.float32)
            filters = (choice.temperature[at], floor, choice.top_k[at], share, moved)
            if draw_filtered(logits, rows, *filters)[0] == token:
                return True
    return False


def check_verified(device: Any, size: Size) -> None:
    """Runs of four logit rows, in which most draft tokens are what a greedy row chooses."""
    logits = random_logits(size, 7)
    choice = dict(choices(size))["greedy"]
    draft_tokens = numpy_ops.choose(logits, choice)
    draft_tokens[::7] = (draft_tokens[::7] + 1) % size.vocab
    draft_tokens[3::4] = draft_tokens[-1] = NO_DRAFT_TOKEN
    given = cuda_ops(device).choose(device.upload(logits), choice, draft_tokens)
    np.testing.assert_array_equal(given, numpy_ops.choose(logits, choice, draft_tokens))


def check_logprobs(k: int, device: Any, size: Size) -> None:
    logits = random_logits(size, 8)
    rng = np.random.default_rng(9)
    rows = rng.permutation(size.rows)[: max(1, size.rows // 2)]
    tokens = rng.integers(0, size.vocab, len(rows))
    k = min(k, size.vocab)
    expected = numpy_ops.gather_logprobs(logits, rows, tokens, k)
    reported = cuda_ops(device).gather_logprobs(device.upload(logits), rows, tokens, k)
    np.testing.assert_array_equal(reported.ranks, expected.ranks, "ranks")
    np.testing.assert_array_equal(reported.top_ids, expected.top_ids, "ids of the likeliest")
    assert_close(reported.chosen, expected.chosen, rtol=2e-6, atol=2e-5)
    assert_close(reported.top, expected.top, rtol=2e-6, atol=2e-5)

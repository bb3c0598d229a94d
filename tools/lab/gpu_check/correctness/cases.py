"""Test cases of every kernel on random inputs: the device's results compared with numpy's.

A case knows a `Device` (`ops/cuda/device.py`) by its protocol, so that it runs over cupy on a GPU and over
a substitute elsewhere.  Seeds are fixed: the same sizes give the same inputs everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops import numpy_ops
from ops.cache_blocks import slot_mapping
from ops.contract import RowSampling
from ops.draft_verification import NO_DRAFT_TOKEN
from ops.random import uniforms
from ops.sampling import draw, draw_filtered
from pipelines.host.contracts.step import Step
from tools.lab.gpu_check.correctness.pooling_cases import pooling_benches, pooling_cases
from tools.lab.gpu_check.correctness.sizes import SIZES, Size

Floats = NDArray[np.float32]
OFF = 2**31 - 1
"""A top_k without effect."""


class Case(NamedTuple):
    """`check(device, size)` raises AssertionError when device and numpy differ."""

    name: str
    check: Callable[[Any, Size], None]


# Logits


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


def _edits(size: Size) -> Iterator[tuple[str, Edit]]:
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


EDITS = tuple(name for name, _ in _edits(SIZES["tiny"]))


def _check_edit(name: str, device: Any, size: Size) -> None:
    edit = dict(_edits(size))[name]
    expected = random_logits(size, 5)
    logits = device.upload(expected)
    edit(numpy_ops, expected)
    edit(_ops(device), logits)
    _close(device.download(logits), expected, rtol=2e-7, atol=2e-6)


def _check_take(device: Any, size: Size) -> None:
    logits = random_logits(size, 6)
    rows = np.array([size.rows - 1, 0, size.rows // 2])
    _close(device.download(_ops(device).take(device.upload(logits), rows)), logits[rows])


# Choosing


def choices(size: Size) -> Iterator[tuple[str, RowSampling]]:
    """Each sampling method alone, then all in one step."""
    rng = np.random.default_rng(3)
    n = size.rows
    keys, counters = rng.integers(0, 2**63, n, np.uint64), rng.integers(0, 5000, n, np.uint64)
    heat = rng.uniform(0.3, 1.7, n).astype(np.float32)
    none, ones = np.zeros(n, np.float32), np.ones(n, np.float32)
    off = np.full(n, OFF, np.int64)
    few = rng.integers(1, min(100, size.vocab), n)
    share = rng.uniform(0.05, 0.99, n).astype(np.float32)
    floor = rng.uniform(0.001, 0.3, n).astype(np.float32)
    yield "greedy", RowSampling(none, none, off, ones, keys, counters)
    yield "temperature", RowSampling(heat, none, off, ones, keys, counters)
    yield "top_k", RowSampling(heat, none, few, ones, keys, counters)
    yield "top_k of one", RowSampling(heat, none, np.ones(n, np.int64), ones, keys, counters)
    yield "top_p", RowSampling(heat, none, off, share, keys, counters)
    yield "top_p of none", RowSampling(heat, none, off, none, keys, counters)
    yield "min_p", RowSampling(heat, floor, off, ones, keys, counters)
    yield "all filters", RowSampling(heat, floor, few, share, keys, counters)
    which = np.arange(n) % 4
    yield (
        "mixed",
        RowSampling(
            np.where(which == 0, none, heat),
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


def _check_choice(name: str, logits: Floats, device: Any, size: Size) -> None:
    """Tokens must be equal, except where a slightly different number would choose the device's token."""
    choice = dict(choices(size))[name]
    with np.errstate(all="ignore"):
        expected = numpy_ops.choose(logits, choice)
    chosen = np.asarray(_ops(device).choose(device.upload(logits), choice))
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


def _check_verified(device: Any, size: Size) -> None:
    """Runs of four logit rows, in which most draft tokens are what a greedy row chooses."""
    logits = random_logits(size, 7)
    choice = dict(choices(size))["greedy"]
    draft_tokens = numpy_ops.choose(logits, choice)
    draft_tokens[::7] = (draft_tokens[::7] + 1) % size.vocab
    draft_tokens[3::4] = draft_tokens[-1] = NO_DRAFT_TOKEN
    given = _ops(device).choose(device.upload(logits), choice, draft_tokens)
    np.testing.assert_array_equal(given, numpy_ops.choose(logits, choice, draft_tokens))


def _check_logprobs(k: int, device: Any, size: Size) -> None:
    logits = random_logits(size, 8)
    rng = np.random.default_rng(9)
    rows = rng.permutation(size.rows)[: max(1, size.rows // 2)]
    tokens = rng.integers(0, size.vocab, len(rows))
    k = min(k, size.vocab)
    expected = numpy_ops.gather_logprobs(logits, rows, tokens, k)
    reported = _ops(device).gather_logprobs(device.upload(logits), rows, tokens, k)
    np.testing.assert_array_equal(reported.ranks, expected.ranks, "ranks")
    np.testing.assert_array_equal(reported.top_ids, expected.top_ids, "ids of the likeliest")
    _close(reported.chosen, expected.chosen, rtol=2e-6, atol=2e-5)
    _close(reported.top, expected.top, rtol=2e-6, atol=2e-5)


# Steps


def random_step(size: Size, decoding: bool, seed: int) -> Step:
    """A step over random blocks: all sequences decode, or some bring chunks of prompts."""
    rng = np.random.default_rng(seed)
    n = size.sequences
    num_past = rng.integers(0, size.context, n).astype(np.int32)
    num_new = np.ones(n, np.int32)
    if not decoding:
        num_new[n // 2 :] = rng.integers(1, 2 * size.block_tokens, n - n // 2)
    starts = np.concatenate([[0], np.cumsum(num_new)]).astype(np.int32)
    num_blocks = (-(-(num_past + num_new) // size.block_tokens)).astype(np.int32)
    columns = int(num_blocks.max())
    table = rng.permutation(n * columns).reshape(n, columns).astype(np.int32)
    positions = np.arange(starts[-1]) + np.repeat(num_past - starts[:-1], num_new)
    sampled = np.arange(n) if decoding else np.arange(0, n, 2)
    return Step(
        token_ids=rng.integers(0, size.vocab, int(starts[-1])),
        positions=positions.astype(np.int64),
        starts=starts,
        num_past=num_past,
        block_table=table,
        num_blocks=num_blocks,
        max_context=int((num_past + num_new).max()),
        logit_indices=(starts[1:][sampled] - 1).astype(np.int64),
        logit_slots=sampled.astype(np.int32),
        copies=np.empty((0, 2), np.int32),
    )


Inputs = dict[str, NDArray[Any]]


def padded_inputs(step: Step, size: Size, sequences: int, columns: int, scratch: int, logits: int) -> Inputs:
    """A step as inputs of the lowered graph, with `sequences - step.num_seqs` rows of padding at the end."""
    pad = sequences - step.num_seqs
    table = np.full((sequences, columns), scratch, np.int32)
    for row, count in enumerate(step.num_blocks):
        table[row, :count] = step.block_table[row, :count]
    slots = slot_mapping(step.block_table, step.starts, step.positions, size.block_tokens)
    zeros = np.zeros(pad, np.int64)
    tail = step.starts[-1] + np.arange(1, pad + 1, dtype=np.int32)
    at = np.zeros(logits, np.int64)
    at[: step.num_logits] = step.logit_indices
    return {
        "input_ids": np.concatenate([step.token_ids, zeros]),
        "position_ids": np.concatenate([step.positions, zeros]),
        "cumulative_sequence_length": np.concatenate([step.starts, tail]).astype(np.int32),
        "past_seqlens": np.concatenate([step.num_past, zeros]).astype(np.int32),
        "block_table": table,
        "slot_mapping": np.concatenate([slots, zeros - 1]).astype(np.int32),
        "logits_indices": at,
    }


def _check_step_inputs(decoding: bool, pad: int, device: Any, size: Size) -> None:
    from ops.cuda.step_inputs import StepInputBuffers

    step = random_step(size, decoding, seed=21 + pad)
    sequences, columns = step.num_seqs + pad, step.block_table.shape[1] + 2
    scratch = int(step.block_table.max()) + 1
    inputs = StepInputBuffers(device, step.num_tokens + pad, sequences, columns)
    bound = inputs.bind(step, size.block_tokens, step.num_tokens + pad, sequences, columns, scratch)
    expected = padded_inputs(step, size, sequences, columns, scratch, len(bound.logits_indices))
    for name, wanted in expected.items():
        array = device.download(getattr(bound, name))
        if array.dtype != wanted.dtype or not np.array_equal(array, wanted):
            raise AssertionError(
                f"{name}: {array.dtype}{array.shape} differs from {wanted.dtype}{wanted.shape}"
            )


# Blocks


def _pools(device: Any, size: Size, num_blocks: int) -> tuple[list[Any], list[NDArray[np.float16]]]:
    rng = np.random.default_rng(31)
    shape = (num_blocks, size.block_tokens, 2, 64)
    pools = [rng.standard_normal(shape).astype(np.float16) for _ in range(4)]
    return [device.upload(pool) for pool in pools], pools


def _check_copies(device: Any, size: Size) -> None:
    from ops.cuda.cache_blocks import copy_blocks

    given, expected = _pools(device, size, 24)
    pairs = np.random.default_rng(32).permutation(24)[:18].reshape(9, 2).astype(np.int32)
    copy_blocks(device, given, pairs)
    for array, pool in zip(given, expected, strict=True):
        pool[pairs[:, 1]] = pool[pairs[:, 0]]
        np.testing.assert_array_equal(device.download(array), pool)


def _check_swaps(device: Any, size: Size) -> None:
    """Swap blocks out, overwrite them, and swap them in elsewhere: single blocks and runs of neighbours."""
    from ops.cuda.cache_blocks import swap_in, swap_out

    pools, expected = _pools(device, size, 24)
    pinned_pools = [device.pinned((16, *pool.shape[1:]), pool.dtype) for pool in expected]
    out = np.array([[3, 0], [4, 1], [5, 2], [20, 9], [11, 15]], np.int32)
    back = np.array([[0, 7], [1, 8], [2, 9], [15, 0], [9, 23]], np.int32)
    swap_out(device, pools, pinned_pools, out)
    swap_in(device, pools, pinned_pools, back)
    device.synchronize()
    for array, pool, host_pool in zip(pools, expected, pinned_pools, strict=True):
        np.testing.assert_array_equal(host_pool[out[:, 1]], pool[out[:, 0]])
        pool[back[:, 1]] = host_pool[back[:, 0]]
        np.testing.assert_array_equal(device.download(array), pool)


def _ops(device: Any) -> Any:
    from ops.cuda.sampling import CudaSamplingOps

    return CudaSamplingOps(device)


def _close(given: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    np.testing.assert_allclose(given, expected, rtol=rtol, atol=atol)


def _cases() -> Iterator[Case]:
    for name in EDITS:
        yield Case(name, lambda device, size, name=name: _check_edit(name, device, size))
    yield Case("take", _check_take)
    for name in CHOICES:
        yield Case(
            f"choose: {name}",
            lambda device, size, name=name: _check_choice(name, random_logits(size, 7), device, size),
        )
    yield Case(
        "choose: greedy, odd rows",
        lambda device, size: _check_choice("greedy", odd_logits(size, 7), device, size),
    )
    yield Case(
        "choose: temperature, odd rows",
        lambda device, size: _check_choice("temperature", odd_logits(size, 7), device, size),
    )
    yield Case("choose: verified", _check_verified)
    for k in (0, 1, 5, 20):
        yield Case(f"logprobs {k}", lambda device, size, k=k: _check_logprobs(k, device, size))
    yield Case("step inputs: decoding", lambda device, size: _check_step_inputs(True, 0, device, size))
    yield Case(
        "step inputs: decoding, padded", lambda device, size: _check_step_inputs(True, 5, device, size)
    )
    yield Case("step inputs: mixed", lambda device, size: _check_step_inputs(False, 0, device, size))
    yield Case("copy_blocks", _check_copies)
    yield Case("swap", _check_swaps)
    for name, check in pooling_cases():
        yield Case(name, check)


CASES = tuple(_cases())


# Times


class Bench(NamedTuple):
    """`num_bytes`: the least device memory traffic of one call in bytes; 0 unknown."""

    name: str
    call: Callable[[], object]
    num_bytes: int


def benches(device: Any, quick: bool = False, vocab: int = 151_936) -> Iterator[Bench]:
    """The calls of a decode step, for one row and for many."""
    ops = _ops(device)
    for rows in (1, 32) if quick else (1, 32, 256):
        size = Size(rows, vocab, rows, 4096, 128)
        logits = device.upload(random_logits(size, 7))
        num_bytes = rows * vocab * 4
        for name, choice in choices(size):
            yield Bench(
                f"choose {name} {rows}",
                lambda choice=choice, logits=logits: ops.choose(logits, choice),
                num_bytes,
            )
        greedy, draft_tokens = dict(choices(size))["greedy"], np.full(rows, NO_DRAFT_TOKEN)
        yield Bench(
            f"choose verified {rows}",
            lambda greedy=greedy, draft_tokens=draft_tokens, logits=logits: ops.choose(
                logits, greedy, draft_tokens
            ),
            num_bytes,
        )
        tokens = np.zeros(rows, np.int64)
        yield Bench(
            f"logprobs 5 {rows}",
            lambda rows=rows, tokens=tokens, logits=logits: ops.gather_logprobs(
                logits, np.arange(rows), tokens, 5
            ),
            num_bytes,
        )
        for name, edit in _edits(size):
            yield Bench(f"{name} {rows}", lambda edit=edit, logits=logits: edit(ops, logits), 0)
        yield _step_inputs_bench(device, size)
    yield from _block_benches(device)
    for bench in pooling_benches(device, quick):
        yield Bench(*bench)


def _step_inputs_bench(device: Any, size: Size) -> Bench:
    from ops.cuda.step_inputs import StepInputBuffers

    step = random_step(size, True, seed=1)
    columns = step.block_table.shape[1]
    scratch = int(step.block_table.max()) + 1
    inputs = StepInputBuffers(device, step.num_tokens, step.num_seqs, columns)
    args = (size.block_tokens, step.num_tokens, step.num_seqs, columns, scratch)
    return Bench(f"step inputs {size.rows}", lambda: inputs.bind(step, *args), 0)


def _block_benches(device: Any) -> Iterator[Bench]:
    """Blocks of an 8B model's cache: 36 layers, keys and values, 8 heads of 128 in 16 bits."""
    from ops.cuda.cache_blocks import copy_blocks, swap_in, swap_out

    pools = [device.zeros((20, 128, 8, 128), np.float16) for _ in range(72)]
    pinned_pools = [device.pinned((8, 128, 8, 128), np.float16) for _ in range(72)]
    pairs = np.stack([np.arange(8), np.arange(8) + 8], axis=1).astype(np.int32)
    moved = 8 * sum(pool.nbytes // 20 for pool in pools)
    out = np.stack([np.arange(8), np.arange(8)], axis=1).astype(np.int32)
    yield Bench("copy 8 blocks", lambda: copy_blocks(device, pools, pairs), 2 * moved)
    yield Bench("swap out 8 blocks", lambda: swap_out(device, pools, pinned_pools, out), moved)
    yield Bench("swap in 8 blocks", lambda: swap_in(device, pools, pinned_pools, out), moved)

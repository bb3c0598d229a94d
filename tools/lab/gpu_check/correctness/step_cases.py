"""The inputs of steps and the moves of cache blocks: the device's results compared with numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.cache_blocks import slot_mapping
from pipelines.inference.contracts.step import Step
from tools.lab.gpu_check.correctness.sizes import Size


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


def check_step_inputs(decoding: bool, pad: int, device: Any, size: Size) -> None:
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


def check_copies(device: Any, size: Size) -> None:
    from ops.cuda.cache_blocks import copy_blocks

    given, expected = _pools(device, size, 24)
    pairs = np.random.default_rng(32).permutation(24)[:18].reshape(9, 2).astype(np.int32)
    copy_blocks(device, given, pairs)
    for array, pool in zip(given, expected, strict=True):
        pool[pairs[:, 1]] = pool[pairs[:, 0]]
        np.testing.assert_array_equal(device.download(array), pool)


def check_swaps(device: Any, size: Size) -> None:
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

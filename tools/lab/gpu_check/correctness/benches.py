"""The kernels of a decode step, as calls to be timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ops.draft_verification import NO_DRAFT_TOKEN
from tools.lab.gpu_check.correctness.pooling_cases import pooling_benches
from tools.lab.gpu_check.correctness.sampling_cases import (
    choices,
    cuda_ops,
    edits,
    random_logits,
)
from tools.lab.gpu_check.correctness.sizes import Size
from tools.lab.gpu_check.correctness.step_cases import (
    random_step,
)


class Bench(NamedTuple):
    """`num_bytes`: the least device memory traffic of one call in bytes; 0 unknown."""

    name: str
    call: Callable[[], object]
    num_bytes: int


def benches(device: Any, quick: bool = False, vocab: int = 151_936) -> Iterator[Bench]:
    """The calls of a decode step, for one row and for many."""
    ops = cuda_ops(device)
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
        for name, edit in edits(size):
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

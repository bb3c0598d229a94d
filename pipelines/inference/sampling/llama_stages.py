"""The stages of llama.cpp's samplers: they look at whole rows, which are fetched for that on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.contract import SamplingOps
from pipelines.inference.sampling.llama_samplers import (
    dry_penalty,
    likeliest_first,
    mirostat_1,
    mirostat_2,
    nucleus,
    possible,
    probabilities,
    repeat_lengths,
    typical,
    within_sigma,
    without_top_choices,
)
from pipelines.inference.sampling.logit_edits import RowEdits
from pipelines.inference.sampling.mask_narrowing import bits_of
from pipelines.inference.sampling.sampled_runs import Edited
from pipelines.wire.sampling_params import LlamaSamplers

Row = NDArray[np.float32]


def apply_dry(ops: SamplingOps, values: Any, edited: Edited) -> None:
    """Take from the logits of tokens that would make a repetition longer."""
    for row, edits in edited:
        llama = edits.params.llama
        assert llama is not None
        lengths = repeat_lengths(edits.history.tokens, edits.dry_breakers, llama.dry_allowed_length)
        taken = [
            -dry_penalty(length, llama.dry_multiplier, llama.dry_base, llama.dry_allowed_length)
            for length in lengths.values()
        ]
        rows, ids = np.full(len(taken), row, np.int64), np.array([*lengths], np.int64)
        ops.add_bias(values, rows, ids, np.array(taken, np.float32))


def apply_llama_samplers(ops: SamplingOps, values: Any, edited: Edited) -> None:
    """Leave the tokens that top_n_sigma, typical_p, XTC or mirostat leave, in llama.cpp's order."""
    rows = np.array([row for row, _ in edited], np.int64)
    fetched = ops.fetch(values, rows)
    num_words = -(-fetched.shape[1] // 32)
    bits = [
        bits_of(_left(logits, edits), num_words) for logits, (_, edits) in zip(fetched, edited, strict=True)
    ]
    ops.apply_bitmask(values, rows, np.stack(bits))


def _left(logits: Row, edits: RowEdits) -> NDArray[np.int64]:
    """The ids that may be chosen; all of a row that has none."""
    llama = edits.params.llama
    assert llama is not None
    is_ordered = llama.mirostat or llama.typical_p < 1 or llama.xtc_probability > 0
    ids = likeliest_first(logits) if is_ordered else possible(logits)
    if not len(ids):
        return np.arange(len(logits))
    if llama.mirostat:
        return _by_mirostat(logits, ids, edits, llama)
    ids = within_sigma(logits, ids, llama.top_n_sigma)
    if llama.typical_p < 1:
        ids = typical(logits, _of_top_k(ids, edits), llama.typical_p)
    if llama.xtc_probability > 0 and _chance(edits) <= llama.xtc_probability:
        likely = nucleus(logits, _of_top_k(ids, edits), edits.params.top_p, edits.params.min_p)
        left_out = {*likely.tolist()} - {*without_top_choices(logits, likely, llama.xtc_threshold).tolist()}
        ids = np.array([token for token in ids.tolist() if token not in left_out], np.int64)
    return ids


def _of_top_k(ids: NDArray[np.int64], edits: RowEdits) -> NDArray[np.int64]:
    return ids[: edits.params.top_k] if edits.params.top_k > 0 else ids


def _chance(edits: RowEdits) -> float:
    """A number from 0 to 1 that depends on the seed and on the place in the output alone."""
    bits = np.random.Philox(key=edits.params.seed % 2**64, counter=edits.num_outputs)
    return float(np.random.Generator(bits).random())


def _by_mirostat(
    logits: Row, ids: NDArray[np.int64], edits: RowEdits, llama: LlamaSamplers
) -> NDArray[np.int64]:
    """The likeliest ids as far as the surprise that is allowed now; what is chosen changes that."""
    scaled = logits / max(edits.params.temperature, 1e-6)
    chances = probabilities(scaled, ids)
    if llama.mirostat == 1:
        size = mirostat_1(chances, len(logits), edits.surprise)
    else:
        size = mirostat_2(chances, edits.surprise)
    chosen = chances[:size] / chances[:size].sum()
    edits.candidates = dict(zip(ids[:size].tolist(), chosen.tolist(), strict=True))
    return ids[:size]

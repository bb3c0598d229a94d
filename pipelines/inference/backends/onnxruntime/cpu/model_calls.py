"""Splits a step into model calls: which sequences are computed together, and the inputs of each call.

In one call every sequence is padded to the most new tokens and the longest context among them, and each call
reads all weights once; so sequences of unlike lengths are computed apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.cache_blocks import slot_mapping
from pipelines.inference.backends.onnxruntime.step_input_names import (
    CUMULATIVE,
    FRAME_SLOTS,
    FRAME_TABLE,
    NUM_FRAMES,
    PAST,
    SLOTS,
    TABLE,
)
from pipelines.inference.contracts.step import CrossAttention, Step
from pipelines.onnx_format.decoder_format import (
    CONTEXT_FRAMES,
    INPUT_IDS,
    LOGITS_INDICES,
    POSITION_IDS,
)

Indices = NDArray[np.int64]
PLACEHOLDER_INDEX = np.zeros(1, np.int64)  # the head wants a row even when nothing is sampled


@dataclass(frozen=True)
class CallCosts:
    """Relative costs of the parts of a call, in any unit."""

    call: float  # to begin one: above all to read the weights
    key: float  # to gather one token's keys and values, in all layers
    pair: float  # for one query to see one key, in all layers

    def of(self, num_seqs: int, num_new: int, context: int) -> float:
        """The cost of a call of `num_seqs` sequences, padded to `num_new` new tokens and `context` keys."""
        return self.call + num_seqs * context * (self.key + num_new * self.pair)


@dataclass(frozen=True)
class ModelCall:
    """`inputs`: input name → contiguous array.  `logits`: the step's logit rows that it computes, in order.
    `sequences` and `tokens`: those of the step that it computes, in order.

    A call without logits computes one row, which is discarded: the graph cannot compute none.
    """

    inputs: dict[str, NDArray[Any]]
    logits: Indices
    sequences: Indices
    tokens: Indices


def plan_calls(step: Step, block_tokens: int, spare_block: int, costs: CallCosts) -> list[ModelCall]:
    """The calls of a step, at least one.

    Entries of its block table that hold no token of their sequence are replaced by `spare_block`: a reserved
    block may contain data of another sequence.
    """
    num_new = np.diff(step.starts)
    columns = -(-(step.num_past + num_new) // block_tokens)
    slots = slot_mapping(step.block_table, step.starts, step.positions, block_tokens).astype(np.int32)
    table = _filled(step.block_table, columns, spare_block)
    contexts, cross = columns, step.cross
    if cross is not None:
        encoder_columns = -(-cross.lengths // block_tokens)
        contexts = columns + encoder_columns
    groups = group_sequences(num_new, contexts * block_tokens, costs)
    if len(groups) == 1:
        calls = [_call_of_all(step, table, slots)]
    else:
        calls = [_call(step, table[:, : columns[rows].max()], slots, rows) for rows in groups]
    if cross is not None:
        encoder_table = _filled(cross.table, encoder_columns, spare_block)
        for number, (call, rows) in enumerate(zip(calls, groups, strict=True)):
            call.inputs.update(
                _frames(cross, encoder_table[:, : encoder_columns[rows].max()], rows, number == 0)
            )
    return calls


def _filled(table: NDArray[np.int32], columns: NDArray[np.int32], spare_block: int) -> NDArray[np.int32]:
    """The used columns of a block table; entries behind a row's own are `spare_block`."""
    table = table[:, : columns.max()]
    return np.where(np.arange(table.shape[1]) < columns[:, None], table, np.int32(spare_block))


def _frames(
    cross: CrossAttention, table: NDArray[np.int32], rows: Indices, is_first: bool
) -> dict[str, NDArray[Any]]:
    """What a call of these sequences needs of frames; the first call of a step writes the new ones."""
    written = slice(None) if is_first else slice(0)
    return {
        FRAME_TABLE: table[rows],
        NUM_FRAMES: cross.lengths[rows],
        FRAME_SLOTS: cross.slots[written],
        CONTEXT_FRAMES: cross.new_states[None, written],
    }


def newly_started_blocks(step: Step, block_tokens: int) -> NDArray[np.int32]:
    """The blocks whose first token or frame this step computes: their old content belongs to no sequence."""
    tokens = np.flatnonzero(step.positions % block_tokens == 0)
    owners = np.searchsorted(step.starts, tokens, side="right") - 1
    started = step.block_table[owners, step.positions[tokens] // block_tokens]
    if step.cross is None or not len(step.cross.slots):
        return started
    return np.concatenate([started, np.unique(step.cross.slots // block_tokens)])


def group_sequences(
    num_new: NDArray[np.int32], contexts: NDArray[np.int32], costs: CallCosts
) -> list[Indices]:
    """The sequences of each call, in ascending order; each sequence is in one group.

    From short to long, a sequence joins the previous group when that costs less than a call of its own.
    """
    useful = costs.call + float((contexts * (costs.key + num_new * costs.pair)).sum())
    padded = costs.of(len(num_new), int(num_new.max()), int(contexts.max()))
    if padded <= useful + costs.call:  # no second call could be worth it
        return [np.arange(len(num_new))]
    order = np.lexsort((contexts, num_new))
    cuts, group = [], (0, 0, 0)
    for place, row in enumerate(order.tolist()):
        size, new, context = group
        alone = (1, int(num_new[row]), int(contexts[row]))
        joined = (size + 1, max(new, alone[1]), max(context, alone[2]))
        apart = costs.of(*group) + costs.of(*alone)
        if place and costs.of(*joined) >= apart:
            cuts.append(place)
            joined = alone
        group = joined
    return [np.sort(rows) for rows in np.split(order, cuts)]


def _call_of_all(step: Step, table: NDArray[np.int32], slots: NDArray[np.int32]) -> ModelCall:
    """The whole step in one call, without copies of its arrays."""
    inputs: dict[str, NDArray[Any]] = {
        INPUT_IDS: step.token_ids,
        POSITION_IDS: _positions(step),
        CUMULATIVE: step.starts,
        PAST: step.num_past,
        TABLE: table,
        SLOTS: slots,
        LOGITS_INDICES: step.logit_indices if step.num_logits else PLACEHOLDER_INDEX,
    }
    everything = (np.arange(size) for size in (step.num_logits, step.num_seqs, step.num_tokens))
    return ModelCall(inputs, *everything)


def _positions(step: Step) -> NDArray[np.int64]:
    """int64[num_tokens]: the positions of rotary embeddings, which images shift with several axes."""
    shifts = step.position_shifts
    return step.positions if shifts is None else step.positions + shifts


def _call(step: Step, table: NDArray[np.int32], slots: NDArray[np.int32], rows: Indices) -> ModelCall:
    counts = np.diff(step.starts)[rows]
    starts = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
    tokens = np.arange(starts[-1]) + np.repeat(step.starts[rows] - starts[:-1], counts)
    place_of = np.full(step.num_tokens, -1)
    place_of[tokens] = np.arange(len(tokens))
    places = place_of[step.logit_indices]
    logits = np.flatnonzero(places >= 0)
    inputs: dict[str, NDArray[Any]] = {
        INPUT_IDS: step.token_ids[tokens],
        POSITION_IDS: _positions(step)[tokens],
        CUMULATIVE: starts,
        PAST: step.num_past[rows],
        TABLE: table[rows],
        SLOTS: slots[tokens],
        LOGITS_INDICES: places[logits] if len(logits) else PLACEHOLDER_INDEX,
    }
    return ModelCall(inputs, logits, rows, tokens)

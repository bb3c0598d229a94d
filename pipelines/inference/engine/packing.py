"""Packs a plan into the arrays of its step.

The cost is a few array operations for all decoding sequences together and a copy of each prompt chunk.  Lists
are reduced, not arrays: after a model has emptied the caches, a reduction of numpy takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.step import (
    NO_STATE,
    CrossAttention,
    InputsEmbeds,
    RecurrentStates,
    ScoredTokens,
    Step,
    no_pairs,
    no_slots,
)
from pipelines.inference.engine.kv_cache.cache import BlockMoves
from pipelines.inference.engine.kv_cache.sequence_states import StateRows
from pipelines.inference.engine.scheduling.step_plan import Plan
from pipelines.inference.engine.sequences.encoder_states import EncoderStates
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.inference.engine.sequences.slots import SequenceSlots


class Packed(NamedTuple):
    """The tokens of all sequences, one after another; `starts` has the index of the first of each."""

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    starts: NDArray[np.int32]


class Chunk(NamedTuple):
    """Tokens [start, end) of a prompt with these images, the first of which is token `begin` of the step."""

    images: PromptEmbeds | None
    start: int
    end: int
    begin: int


def pack(plan: Plan, slots: SequenceSlots, moves: BlockMoves) -> Step:
    """The step of `plan`, whose blocks are reserved.  Its arrays are copies: the slots may change."""
    slot_of = plan.slots()
    num_past = slots.num_past[slot_of]
    num_blocks = slots.num_blocks[slot_of]
    columns = max(num_blocks.tolist())
    tokens = _tokens(plan, slots.last_token[slot_of[: plan.num_decoding]], num_past)
    logit_indices, logit_slots = _logits(plan, tokens.starts, slot_of)
    scored = None
    if plan.num_scoring:
        scored_indices, scored = _scored(plan, tokens.starts)
        logit_indices = np.concatenate([logit_indices, scored_indices])
    return Step(
        token_ids=tokens.ids,
        positions=tokens.positions,
        starts=tokens.starts,
        num_past=num_past,
        block_table=slots.block_table[slot_of, :columns],
        num_blocks=num_blocks,
        max_context=max(slice.end for slice in plan.slices),
        logit_indices=logit_indices,
        logit_slots=logit_slots,
        copies=_pairs(moves.copies),
        swaps_out=_pairs(moves.swaps_out),
        swaps_in=_pairs(moves.swaps_in),
        slots=slot_of,
        adapters=_adapters(slots, slot_of),
        scored=scored,
        states=_states(moves.states) if moves.states else None,
        cross=_cross(slots, slot_of, moves.encoder_states) if slots.encoder_hidden_size else None,
        embeds=_embeds(plan, tokens.starts),
        position_shifts=_shifts(plan, tokens.starts, slots, slot_of) if slots.has_shifts else None,
        draft_budget=_draft_budget(plan) if plan.speculates else None,
    )


def _cross(slots: SequenceSlots, slot_of: NDArray[np.int32], new: list[EncoderStates]) -> CrossAttention:
    columns = slots.num_encoder_blocks[slot_of].max()
    return CrossAttention(
        table=slots.encoder_table[slot_of, :columns],
        lengths=slots.num_encoder_states[slot_of],
        new_states=_new_states(new) if new else np.empty((0, slots.encoder_hidden_size), np.float32),
        slots=np.concatenate([states.slots for states in new]) if new else no_slots(),
    )


def _new_states(new: list[EncoderStates]) -> NDArray[np.float32]:
    return np.concatenate([states.values for states in new])


def _adapters(slots: SequenceSlots, slot_of: NDArray[np.int32]) -> NDArray[np.int32]:
    adapters = slots.adapter[slot_of]
    return adapters if any(adapters.tolist()) else no_slots()


def _draft_budget(plan: Plan) -> NDArray[np.int32]:
    return np.array([slice.draft_budget for slice in plan.slices], np.int32)


def _states(states: list[StateRows]) -> RecurrentStates:
    columns = max(len(state.rows) for state in states)
    table = [state.rows + [NO_STATE] * (columns - len(state.rows)) for state in states]
    return RecurrentStates(
        table=np.array(table, np.int32).reshape(len(states), columns),
        interval=np.array([state.interval for state in states], np.int32),
    )


def _pairs(pairs: list[tuple[int, int]]) -> NDArray[np.int32]:
    return np.array(pairs, np.int32) if pairs else no_pairs()


def _tokens(plan: Plan, decoding: NDArray[np.int64], num_past: NDArray[np.int32]) -> Packed:
    """One token of each decoding sequence, then the chunks of prompts."""
    prompts = plan.slices[plan.num_decoding :]
    if not prompts:
        return Packed(decoding, num_past.astype(np.int64), np.arange(len(decoding) + 1, dtype=np.int32))
    counts = np.ones(len(num_past), np.int32)
    counts[plan.num_decoding :] = [slice.num_tokens for slice in prompts]
    starts = np.zeros(len(num_past) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    chunks = [np.array(slice.sequence.token_ids[slice.start : slice.end], np.int64) for slice in prompts]
    positions = np.arange(starts[-1]) + np.repeat(num_past - starts[:-1], counts)
    return Packed(np.concatenate([decoding, *chunks]), positions, starts)


def _embeds(plan: Plan, starts: NDArray[np.int32]) -> InputsEmbeds | None:
    """The embeddings of all prompts, whose tokens are those of no decoding sequence."""
    begins = starts[plan.num_decoding : -1].tolist()
    prompts = zip(plan.slices[plan.num_decoding :], begins, strict=True)
    return embeds_of(
        Chunk(slice.sequence.request.images, slice.start, slice.end, begin) for slice, begin in prompts
    )


def embeds_of(chunks: Iterable[Chunk]) -> InputsEmbeds | None:
    """The embeddings of images in the parts of prompts that a step computes; None where there are none."""
    values, places, positions = [], [], []
    for images, start, end, begin in chunks:
        if images is not None:
            those = images.within(start, end)
            if those.start < those.stop:
                values.append(images.rows[those])
                places.append(images.places[those] + (begin - start))
                if images.positions is not None:
                    positions.append(images.positions.axes[:, those])
    if not values:
        return None
    return InputsEmbeds(
        values=np.concatenate(values),
        places=np.concatenate(places),
        positions=np.concatenate(positions, axis=1) if positions else None,
    )


def _shifts(
    plan: Plan, starts: NDArray[np.int32], slots: SequenceSlots, slot_of: NDArray[np.int32]
) -> NDArray[np.int64] | None:
    """What images before a token add to its place, for all tokens; None where no sequence has any."""
    after_prompt = slots.shift[slot_of]
    if not after_prompt.any():
        return None
    shifts = np.repeat(after_prompt, np.diff(starts))
    begins = starts[plan.num_decoding : -1].tolist()
    for slice, begin in zip(plan.slices[plan.num_decoding :], begins, strict=True):
        images = slice.sequence.request.images
        if images is not None and images.positions is not None:
            own = images.positions.shifts(slice.start, slice.end)
            shifts[begin : begin + slice.num_tokens] = own
    return shifts


def _logits(
    plan: Plan, starts: NDArray[np.int32], slot_of: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The positions and slots of the sampled tokens: a prompt's last position once for each of its
    choices.
    """
    if plan.num_decoding == len(plan.slices):
        return np.arange(len(slot_of)), slot_of
    at, of = list(range(plan.num_decoding)), slot_of[: plan.num_decoding].tolist()
    ends = starts[plan.num_decoding + 1 :].tolist()
    for slice, end in zip(plan.slices[plan.num_decoding :], ends, strict=True):
        if slice.samples:
            at += [end - 1] * len(slice.sequence.group)
            of += [member.slot for member in slice.sequence.group]
    return np.array(at, np.int64), np.array(of, np.int32)


def _scored(plan: Plan, starts: NDArray[np.int32]) -> tuple[NDArray[np.int64], ScoredTokens]:
    """The tokens that the last `num_scoring` slices score, and the positions of the logits for them, which
    come behind all that are sampled.
    """
    begins = starts[len(plan.slices) - plan.num_scoring : -1].tolist()
    at, ids, tops = [], [], []
    for slice, begin in zip(plan.scoring, begins, strict=True):
        scored, scores = slice.scored, slice.sequence.scores
        assert scores is not None
        at.append(np.arange(scored.start, scored.stop) + (begin - slice.start))
        ids.append(np.array(slice.sequence.token_ids[scored.start + 1 : scored.stop + 1], np.int64))
        tops.append(np.full(len(scored), scores.num_alternatives))
    return np.concatenate(at), ScoredTokens(np.concatenate(ids), np.concatenate(tops))

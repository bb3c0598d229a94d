"""Packed steps written by hand, for tools that compare the logits of a decoder on whole prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.host.backends.decoder_contract import DecoderSession
from pipelines.host.engine.packing import Chunk, rows_of
from pipelines.host.engine.prompt_rows import PromptRows
from pipelines.host.engine.step import NO_STATE, ONLY_LAST, Step

MAX_FRAMES = 50
"""Of an encoder, that prompts attend to."""


class Part(NamedTuple):
    """What a step computes of one prompt: `ids` behind `past` tokens, and the logits of `rows` of `ids`.

    `blocks` int32: the cache blocks of the prompt; those that it does not reach yet are left out of the step.
    `slot` holds its state, if the model has one; `images` are those of the prompt.
    """

    ids: NDArray[np.int64]
    past: int
    blocks: NDArray[np.int32]
    rows: NDArray[np.int64]
    slot: int = 0
    images: PromptRows | None = None


class Prompt(NamedTuple):
    """A prompt, the positions of it, ascending, whose logits are wanted: int64 each, and its images."""

    ids: NDArray[np.int64]
    rows: NDArray[np.int64]
    images: PromptRows | None = None

    def ends(self, num_tokens: int) -> list[int]:
        """The ends of its chunks of `num_tokens` tokens, none of which cuts an image."""
        size = len(self.ids)
        cuts = range(num_tokens, size, num_tokens)
        return [end for end in cuts if self.images is None or self.images.uncut(end) == end] + [size]


def packed_step(parts: Sequence[Part], block_tokens: int) -> Step:
    """The step of all parts, in order."""
    counts = [len(part.ids) for part in parts]
    ends = np.array([part.past + len(part.ids) for part in parts])
    num_blocks = -(-ends // block_tokens)
    table = np.full((len(parts), num_blocks.max()), -1, np.int32)
    for row, (part, count) in enumerate(zip(parts, num_blocks, strict=True)):
        table[row, :count] = part.blocks[:count]
    starts = np.concatenate([[0], np.cumsum(counts)])
    past = np.array([part.past for part in parts], np.int32)
    slots = np.array([part.slot for part in parts], np.int32)
    rows = np.concatenate([part.rows + start for part, start in zip(parts, starts, strict=False)])
    chunks = [
        Chunk(part.images, part.past, part.past + len(part.ids), int(start))
        for part, start in zip(parts, starts, strict=False)
    ]
    given = rows_of(chunks)
    return Step(
        token_ids=np.concatenate([part.ids for part in parts]),
        positions=np.concatenate([np.arange(part.past, part.past + len(part.ids)) for part in parts]),
        starts=starts.astype(np.int32),
        num_past=past,
        block_table=table,
        num_blocks=num_blocks.astype(np.int32),
        max_context=int(ends.max()),
        logit_indices=rows,
        logit_slots=np.arange(len(rows), dtype=np.int32),
        copies=np.empty((0, 2), np.int32),
        slots=slots,
        state_table=np.stack([np.where(past, slots, NO_STATE), slots], axis=1).astype(np.int32),
        state_interval=np.full(len(parts), ONLY_LAST, np.int32),
        given_rows=given.rows,
        given_places=given.places,
        given_positions=given.positions,
        position_shifts=np.concatenate([_shifts(chunk) for chunk in chunks]),
    )


def frames_in(step: Step, frames: NDArray[np.float32], first_block: int, block_tokens: int) -> Step:
    """The step with the same frames for each of its parts, in the blocks from `first_block` on.

    The first of the steps over them writes their keys and values.
    """
    blocks = first_block + np.arange(-(-len(frames) // block_tokens), dtype=np.int32)
    slots = first_block * block_tokens + np.arange(len(frames), dtype=np.int32)
    num_parts, is_first = len(step.num_past), not step.num_past.any()
    return replace(
        step,
        frame_table=np.tile(blocks, (num_parts, 1)),
        num_frames=np.full(num_parts, len(frames), np.int32),
        new_frames=frames if is_first else frames[:0],
        frame_slots=slots if is_first else slots[:0],
    )


def prompt_logits(
    session: DecoderSession, prompts: Sequence[Prompt], step_tokens: int
) -> list[NDArray[np.float32]]:
    """The logits float32[len(rows), vocab] of each prompt.

    The prompts run beside one another, `step_tokens` tokens of each in a step.  Allocates cache and states.
    A decoder that attends to frames of an encoder is given noise for them.
    """
    size = session.block_tokens
    sizes = [-(-len(prompt.ids) // size) for prompt in prompts]
    ends = [prompt.ends(step_tokens) for prompt in prompts]
    widest = max(int(np.diff([0, *each]).max()) for each in ends)
    num_frames = min(session.max_frames, MAX_FRAMES) if session.frame_size else 0
    frames = np.random.default_rng(0).standard_normal((num_frames, session.frame_size)).astype(np.float32)
    session.reserve(widest * len(prompts), len(prompts))
    session.allocate(sum(sizes) - (-num_frames // size), num_states=len(prompts))
    blocks = np.split(np.arange(sum(sizes), dtype=np.int32), np.cumsum(sizes)[:-1])
    found: list[list[NDArray[np.float32]]] = [[] for _ in prompts]
    for turn in range(max(map(len, ends))):
        live = [number for number in range(len(prompts)) if turn < len(ends[number])]
        parts = [
            _part(prompts[number], [0, *ends[number]][turn:][:2], blocks[number], number) for number in live
        ]
        step = packed_step(parts, size)
        logits = session.run(frames_in(step, frames, sum(sizes), size) if num_frames else step)
        for number, rows in zip(
            live, np.split(logits, np.cumsum([len(each.rows) for each in parts])), strict=False
        ):
            found[number].append(rows.copy())
    return [np.concatenate(rows) for rows in found]


def _part(prompt: Prompt, span: Sequence[int], blocks: NDArray[np.int32], slot: int) -> Part:
    begin, end = span
    inside = (prompt.rows >= begin) & (prompt.rows < end)
    return Part(prompt.ids[begin:end], begin, blocks, prompt.rows[inside] - begin, slot, prompt.images)


def _shifts(chunk: Chunk) -> NDArray[np.int64]:
    """int64[tokens]: what images add to the places of a chunk's tokens."""
    if chunk.images is None or chunk.images.positions is None:
        return np.zeros(chunk.end - chunk.start, np.int64)
    return chunk.images.positions.shifts(chunk.start, chunk.end)

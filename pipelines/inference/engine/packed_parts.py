"""Packs parts of prompts into a step without a scheduler: texts of an embedding model, prompts of tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST, RecurrentStates, Step
from pipelines.inference.engine.packing import Chunk, embeds_of
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds


class PromptPart(NamedTuple):
    """What a step computes of one prompt: `ids` behind `past` tokens, and the logits of `rows` of `ids`.

    `blocks` int32: the cache blocks of the prompt; those that it does not reach yet are left out of the step.
    `slot` holds its state, if the model has one; `images` are those of the prompt.
    """

    ids: NDArray[np.int64]
    past: int
    blocks: NDArray[np.int32]
    rows: NDArray[np.int64]
    slot: int = 0
    images: PromptEmbeds | None = None


def packed_step(parts: Sequence[PromptPart], block_tokens: int) -> Step:
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
        states=RecurrentStates(
            table=np.stack([np.where(past, slots, NO_STATE), slots], axis=1).astype(np.int32),
            interval=np.full(len(parts), ONLY_LAST, np.int32),
        ),
        embeds=embeds_of(chunks),
        position_shifts=np.concatenate([_shifts(chunk) for chunk in chunks]),
    )


def _shifts(chunk: Chunk) -> NDArray[np.int64]:
    """int64[tokens]: what images add to the places of a chunk's tokens."""
    if chunk.images is None or chunk.images.positions is None:
        return np.zeros(chunk.end - chunk.start, np.int64)
    return chunk.images.positions.shifts(chunk.start, chunk.end)

"""Packed steps written by hand, for tools that compare the logits of a decoder on whole prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.step import CrossAttention, Step
from pipelines.inference.engine.packed_parts import PromptPart, packed_step
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds

MAX_FRAMES = 50
"""The most frames of an encoder that prompts attend to."""


class Prompt(NamedTuple):
    """A prompt, the positions of it, ascending, whose logits are wanted: int64 each, and its images."""

    ids: NDArray[np.int64]
    rows: NDArray[np.int64]
    images: PromptEmbeds | None = None

    def ends(self, num_tokens: int) -> list[int]:
        """The ends of its chunks of `num_tokens` tokens, none of which cuts an image."""
        size = len(self.ids)
        cuts = range(num_tokens, size, num_tokens)
        return [end for end in cuts if self.images is None or self.images.uncut(end) == end] + [size]


def frames_in(step: Step, frames: NDArray[np.float32], first_block: int, block_tokens: int) -> Step:
    """The step with the same frames for each of its parts, in the blocks from `first_block` on.

    The first of the steps over them writes their keys and values.
    """
    blocks = first_block + np.arange(-(-len(frames) // block_tokens), dtype=np.int32)
    slots = first_block * block_tokens + np.arange(len(frames), dtype=np.int32)
    num_parts, is_first = len(step.num_past), not step.num_past.any()
    return replace(
        step,
        cross=CrossAttention(
            table=np.tile(blocks, (num_parts, 1)),
            lengths=np.full(num_parts, len(frames), np.int32),
            new_states=frames if is_first else frames[:0],
            slots=slots if is_first else slots[:0],
        ),
    )


def prompt_logits(
    session: DecoderSession, prompts: Sequence[Prompt], step_tokens: int
) -> list[NDArray[np.float32]]:
    """The logits float32[len(rows), vocab] of each prompt.

    The prompts run beside one another, `step_tokens` tokens of each in a step.  Allocates cache and states.
    A decoder that attends to frames of an encoder is given noise for them.
    """
    size = session.shape.block_tokens
    sizes = [-(-len(prompt.ids) // size) for prompt in prompts]
    ends = [prompt.ends(step_tokens) for prompt in prompts]
    widest = max(int(np.diff([0, *prompt_ends]).max()) for prompt_ends in ends)
    encoder_hidden_size = session.shape.encoder_hidden_size
    num_frames = min(session.shape.max_encoder_states, MAX_FRAMES) if encoder_hidden_size else 0
    frames = np.random.default_rng(0).standard_normal((num_frames, encoder_hidden_size)).astype(np.float32)
    session.reserve(widest * len(prompts), len(prompts))
    session.allocate(sum(sizes) - (-num_frames // size), num_states=len(prompts))
    blocks = np.split(np.arange(sum(sizes), dtype=np.int32), np.cumsum(sizes)[:-1])
    logits_of: list[list[NDArray[np.float32]]] = [[] for _ in prompts]
    for turn in range(max(map(len, ends))):
        live = [number for number in range(len(prompts)) if turn < len(ends[number])]
        parts = [
            _part(prompts[number], [0, *ends[number]][turn:][:2], blocks[number], number) for number in live
        ]
        step = packed_step(parts, size)
        logits = session.run(frames_in(step, frames, sum(sizes), size) if num_frames else step)
        for number, rows in zip(
            live, np.split(logits, np.cumsum([len(part.rows) for part in parts])), strict=False
        ):
            logits_of[number].append(rows.copy())
    return [np.concatenate(rows) for rows in logits_of]


def _part(prompt: Prompt, span: Sequence[int], blocks: NDArray[np.int32], slot: int) -> PromptPart:
    begin, end = span
    inside = (prompt.rows >= begin) & (prompt.rows < end)
    return PromptPart(prompt.ids[begin:end], begin, blocks, prompt.rows[inside] - begin, slot, prompt.images)

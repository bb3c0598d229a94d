"""Blocks for the keys and values of encoder frames: a sequence that runs has a share in all of its own."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.host.engine.kv_cache.block_pool import BlockPool
from pipelines.host.engine.sequences.encoder_states import EncoderStates
from pipelines.host.engine.sequences.policy import blocks_for
from pipelines.host.engine.sequences.sequence import Sequence, Slice
from pipelines.host.engine.sequences.slots import SequenceSlots


class EncoderBlocks:
    """A running sequence with frames has a share in all of their blocks, another one in none.

    Its first step writes them, if no other sequence's has; they are not swapped, but written again.
    """

    def __init__(self, pool: BlockPool, slots: SequenceSlots, block_tokens: int) -> None:
        self._pool = pool
        self._slots = slots
        self._block_tokens = block_tokens

    def num_needed(self, sequence: Sequence) -> int:
        """Free blocks that the frames of a waiting sequence would take."""
        frames = sequence.request.frames
        return 0 if frames is None or frames.blocks else blocks_for(len(frames), self._block_tokens)

    def attach(self, sequence: Sequence) -> None:
        """Give a sequence that begins to run a share in the blocks of its frames."""
        frames = sequence.request.frames
        if frames is None:
            return
        if frames.blocks:
            for block in frames.blocks:
                self._pool.share(block)
        else:
            blocks = [self._pool.take() for _ in range(blocks_for(len(frames), self._block_tokens))]
            frames.place(blocks, self._block_tokens)
        sequence.encoder_blocks = frames.blocks
        self._slots.set_encoder_states(sequence.slot, frames.blocks, len(frames))

    def release(self, sequence: Sequence) -> None:
        """The sequence runs no longer; the last one frees the blocks."""
        frames = sequence.request.frames
        if frames is None or not sequence.encoder_blocks:
            return
        sequence.encoder_blocks = []
        for block in frames.blocks:
            self._pool.release(block)
        if self._pool.references[frames.blocks[0]] == 0:
            frames.place([], self._block_tokens)

    def to_write(self, slices: Iterable[Slice]) -> list[EncoderStates]:
        """The frames that a step of these slices writes before anything else."""
        if not self._slots.encoder_hidden_size:
            return []
        attended = {slice.sequence.request.frames: None for slice in slices}
        return [frames for frames in attended if frames is not None and not frames.are_written]

"""Blocks for the keys and values of encoder states: a sequence that runs has a share in all of its own."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.inference.engine.kv_cache.block_pool import BlockPool
from pipelines.inference.engine.sequences.encoder_states import EncoderStates
from pipelines.inference.engine.sequences.policy import blocks_for
from pipelines.inference.engine.sequences.sequence import Sequence, Slice
from pipelines.inference.engine.sequences.slots import SequenceSlots


class EncoderBlocks:
    """A running sequence with encoder states has a share in all of their blocks, another one in none.

    Its first step writes them, if no other sequence's has; they are not swapped, but written again.
    """

    def __init__(self, pool: BlockPool, slots: SequenceSlots, block_tokens: int) -> None:
        self._pool = pool
        self._slots = slots
        self._block_tokens = block_tokens

    def num_needed(self, sequence: Sequence) -> int:
        """Free blocks that the encoder states of a waiting sequence would take."""
        states = sequence.request.encoder_states
        return 0 if states is None or states.blocks else blocks_for(len(states), self._block_tokens)

    def attach(self, sequence: Sequence) -> None:
        """Give a sequence that begins to run a share in the blocks of its encoder states."""
        states = sequence.request.encoder_states
        if states is None:
            return
        if states.blocks:
            for block in states.blocks:
                self._pool.share(block)
        else:
            blocks = [self._pool.take() for _ in range(blocks_for(len(states), self._block_tokens))]
            states.place(blocks, self._block_tokens)
        sequence.encoder_blocks = states.blocks
        self._slots.set_encoder_states(sequence.slot, states.blocks, len(states))

    def release(self, sequence: Sequence) -> None:
        """The sequence runs no longer; the last one frees the blocks."""
        states = sequence.request.encoder_states
        if states is None or not sequence.encoder_blocks:
            return
        sequence.encoder_blocks = []
        for block in states.blocks:
            self._pool.release(block)
        if self._pool.references[states.blocks[0]] == 0:
            states.place([], self._block_tokens)

    def to_write(self, slices: Iterable[Slice]) -> list[EncoderStates]:
        """The encoder states that a step of these slices writes before anything else."""
        if not self._slots.encoder_hidden_size:
            return []
        attended = {slice.sequence.request.encoder_states: None for slice in slices}
        return [states for states in attended if states is not None and not states.are_written]

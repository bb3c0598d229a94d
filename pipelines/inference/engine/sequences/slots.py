"""Slots of running sequences: what every step needs of them, stored in arrays between steps.

Rebuilding block tables from lists costs milliseconds at long contexts; here a slot changes only where its
sequence grew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.weights import BASE


class SequenceSlots:
    """One slot for each of at most `num_slots` running sequences.

    Of a running sequence: block_table[slot, :num_blocks[slot]] are its blocks, num_past[slot] its
    `num_cached`, last_token[slot] its last token id.  Where sequences have cross-attention to states
    of `encoder_hidden_size` numbers, num_encoder_states[slot] is how many, and
    encoder_table[slot, :num_encoder_blocks[slot]] are their blocks, `encoder_columns` at most.  With
    `has_shifts`, shift[slot] is what is added to the places of the tokens after its prompt for their
    positions.  adapter[slot] is the load number of its adapter.  Other entries are
    undefined.
    """

    def __init__(
        self,
        num_slots: int,
        columns: int,
        encoder_columns: int = 0,
        encoder_hidden_size: int = 0,
        has_shifts: bool = False,
    ) -> None:
        self.block_table: NDArray[np.int32] = np.zeros((num_slots, columns), np.int32)
        self.num_blocks: NDArray[np.int32] = np.zeros(num_slots, np.int32)
        self.num_past: NDArray[np.int32] = np.zeros(num_slots, np.int32)
        self.last_token: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.has_shifts = has_shifts
        self.shift: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.adapter: NDArray[np.int32] = np.zeros(num_slots, np.int32)
        self.encoder_hidden_size = encoder_hidden_size
        self.encoder_table: NDArray[np.int32] = np.zeros((num_slots, encoder_columns), np.int32)
        self.num_encoder_blocks: NDArray[np.int32] = np.zeros(num_slots, np.int32)
        self.num_encoder_states: NDArray[np.int32] = np.zeros(num_slots, np.int32)
        self.free = list(reversed(range(num_slots)))

    @property
    def num_taken(self) -> int:
        return len(self.num_blocks) - len(self.free)

    def take(self, last_token: int, shift: int = 0, adapter: int = BASE) -> int:
        """Take a free slot; its blocks are not set yet. IndexError when none is free."""
        slot = self.free.pop()
        self.last_token[slot] = last_token
        self.shift[slot] = shift
        self.adapter[slot] = adapter
        return slot

    def release(self, slot: int) -> None:
        self.free.append(slot)

    def set_blocks(self, slot: int, blocks: list[int]) -> None:
        self.block_table[slot, : len(blocks)] = blocks
        self.num_blocks[slot] = len(blocks)

    def set_encoder_states(self, slot: int, blocks: list[int], num_encoder_states: int) -> None:
        self.encoder_table[slot, : len(blocks)] = blocks
        self.num_encoder_blocks[slot] = len(blocks)
        self.num_encoder_states[slot] = num_encoder_states

    def add_block(self, slot: int, block: int) -> None:
        self.block_table[slot, self.num_blocks[slot]] = block
        self.num_blocks[slot] += 1

    def drop_block(self, slot: int) -> None:
        self.num_blocks[slot] -= 1

    def replace_block(self, slot: int, column: int, block: int) -> None:
        self.block_table[slot, column] = block

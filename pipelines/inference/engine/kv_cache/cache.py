"""Which blocks store which sequence's keys and values: allocation, sharing, copy-on-write, prefix reuse.

The blocks of the sequences and the block tables of the slots are changed only here.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Many
from contextlib import contextmanager
from typing import NamedTuple

from pipelines.inference.engine.kv_cache import prefix_digests
from pipelines.inference.engine.kv_cache.block_pool import BlockPool
from pipelines.inference.engine.kv_cache.encoder_blocks import EncoderBlocks
from pipelines.inference.engine.kv_cache.sequence_states import SequenceStates, StateRows
from pipelines.inference.engine.kv_cache.stored_prefixes import StoredPrefixes
from pipelines.inference.engine.kv_cache.swap_space import SwapSpace
from pipelines.inference.engine.sequences.encoder_states import EncoderStates
from pipelines.inference.engine.sequences.policy import blocks_for, may_swap_out
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.inference.engine.sequences.sequence import Sequence, Slice
from pipelines.inference.engine.sequences.slots import SequenceSlots

NO_SWAPPING = (
    "cache.swap_gb: this model keeps recurrent states, which are not swapped; preempted sequences are "
    "computed again from what is cached of them"
)


class Reservation(NamedTuple):
    """A block reserved for a step: a new last column, or the copy of a shared one."""

    sequence: Sequence
    column: int
    replaced: int | None


class BlockMoves(NamedTuple):
    """What a step moves before its model runs, in this order; each pair is (from, to).  And its states, and
    the encoder states that it writes.
    """

    swaps_out: list[tuple[int, int]]  # block, host block
    swaps_in: list[tuple[int, int]]  # host block, block
    copies: list[tuple[int, int]]  # block, block
    states: list[StateRows]  # of each slice; [] for a model without states
    encoder_states: list[EncoderStates]


class Cache:
    """`num_blocks` blocks of `block_tokens` tokens, a hard bound: nothing is ever written elsewhere.

    A block that a step writes to has one owner; only full, computed blocks have digests.  `num_host_blocks`
    more in host memory store the cache of evicted sequences; a model with states, which has `num_states` rows
    for them, cannot have any.
    """

    def __init__(
        self,
        num_blocks: int,
        block_tokens: int,
        slots: SequenceSlots,
        reuse_prefixes: bool,
        num_host_blocks: int = 0,
        num_states: int = 0,
    ) -> None:
        if num_states and num_host_blocks:
            raise ValueError(NO_SWAPPING)
        self.block_tokens = block_tokens
        self.reuse_prefixes = reuse_prefixes
        self.pool = BlockPool(num_blocks)
        self.swap = SwapSpace(num_host_blocks)
        self.states = SequenceStates(num_states, block_tokens, reuse_prefixes)
        self.encoder_blocks = EncoderBlocks(self.pool, slots, block_tokens)
        self.slots = slots
        self.stored: StoredPrefixes | None = None

    def shortage(self, slices: Many[Slice]) -> int:
        """Blocks that `slices` will write to beyond those owned and those free; fits when <= 0."""
        needed = 0
        writers: dict[int, int] = {}  # shared block → how many of the slices write to it
        for slice in slices:
            needed += blocks_for(slice.end, self.block_tokens) - len(slice.sequence.blocks)
            column = self._shared_column(slice)
            if column is not None:
                block = slice.sequence.blocks[column]
                writers[block] = writers.get(block, 0) + 1
        for block, num_writers in writers.items():  # the last owner needs no copy
            needed += min(num_writers, self.pool.references[block] - 1)
        return needed - self.pool.num_free

    @contextmanager
    def reserve(self, slices: Many[Slice]) -> Iterator[BlockMoves]:
        """Reserve the blocks that every slice will write to; all are released if the body raises.

        Yields the moves that must come before any write. Needs `shortage(slices) <= 0`. If the body raises,
        sequences to be swapped out are computed again, and sequences to be swapped in still own their host
        blocks.
        """
        reservations: list[Reservation] = []
        try:
            copies = self._reserve(slices, reservations)
            encoder_states = self.encoder_blocks.to_write(slices)
            states = self.states.reserve(slices)
            yield BlockMoves(self.swap.swaps_out(), self.swap.swaps_in(), copies, states, encoder_states)
        except BaseException:
            for reservation in reversed(reservations):
                self._undo(reservation)
            for sequence in list(self.swap.swapping_out):
                self.release(sequence)
            self.states.undo()
            raise
        self.swap.finish_swaps()
        for written in encoder_states:
            written.are_written = True

    def match(self, sequence: Sequence) -> list[int]:
        """The longest chain of blocks that hold the sequence's first tokens, of those it may reuse.

        For a model with states it ends where one is stored, and never inside an image that stays whole.
        """
        if not self.reuse_prefixes:
            return []
        num_blocks = sequence.num_reusable // self.block_tokens
        self._extend_digests(sequence, num_blocks)
        blocks: list[int] = []
        for digest in sequence.digests[:num_blocks]:
            block = self.pool.find(digest)
            if block is None:
                break
            blocks.append(block)
        if sequence.request.uncut is not None:
            return blocks[: self._num_uncut(sequence.request.uncut, len(blocks))]
        return blocks[: self.states.num_usable(sequence, len(blocks))] if self.states.used else blocks

    def begin_step(self) -> None:
        """Copy some blocks for the file of prefixes, while no step runs."""
        if self.stored is not None:
            self.stored.begin_step()

    @property
    def has_blocks_to_store(self) -> bool:
        return self.stored is not None and self.stored.has_work

    def restore(self, sequence: Sequence, matched: list[int]) -> bool:
        """Append to the `matched` blocks of a waiting sequence those that the file of prefixes has.

        False where more of them are to be read: then the sequence waits for the next step.
        """
        if self.stored is None or sequence.host_blocks:
            return True
        return self.stored.restore(self._storable(sequence, len(sequence.digests)), matched)

    @property
    def is_reading(self) -> bool:
        """Whether a waiting sequence waits for blocks of that file."""
        return self.stored is not None and self.stored.is_reading

    def _storable(self, sequence: Sequence, num_blocks: int) -> list[bytes]:
        """The digests of its first blocks, up to the first image: that is named by its pixels, not by what
        another model made of them.
        """
        if sequence.request.images is not None:
            num_blocks = min(num_blocks, sequence.request.images.starts[0] // self.block_tokens)
        return sequence.digests[: min(num_blocks, sequence.num_reusable // self.block_tokens)]

    def _num_uncut(self, images: PromptEmbeds, num_blocks: int) -> int:
        """How many of a prompt's first blocks end inside none of its images."""
        while (end := images.uncut(num_blocks * self.block_tokens)) < num_blocks * self.block_tokens:
            num_blocks = end // self.block_tokens
        return num_blocks

    def num_needed(self, sequence: Sequence, matched: list[int]) -> int:
        """Free blocks that all tokens and encoder states of a waiting sequence would take, matched free ones
        included.
        """
        num_owned = sum(self.pool.references[block] > 0 for block in matched)
        num_blocks = blocks_for(len(sequence.token_ids), self.block_tokens)
        return num_blocks - num_owned + self.encoder_blocks.num_needed(sequence)

    def num_reserved(self, running: Many[Sequence]) -> int:
        """Blocks that the pending tokens of `running` will take."""
        return sum(
            blocks_for(len(sequence.token_ids), self.block_tokens) - len(sequence.blocks)
            for sequence in running
        )

    def attach(self, sequence: Sequence, blocks: list[int]) -> None:
        """Give a waiting sequence a share in the matched `blocks`, and in the state after them.

        The content of its host blocks beyond them counts as cached: its next step swaps it in.
        """
        self._share(sequence, blocks)
        if self.states.used:
            self.states.begin(sequence, len(blocks))
        if self.stored is not None and sequence.num_reused is None:
            self.stored.reused(self._storable(sequence, len(blocks)))

    def _share(self, sequence: Sequence, blocks: list[int]) -> None:
        for block in blocks:
            self.pool.share(block)
        sequence.blocks = list(blocks)
        sequence.num_registered = len(blocks)
        self.encoder_blocks.attach(sequence)
        self.swap.swap_in(sequence, len(blocks))
        if not sequence.host_blocks:
            sequence.num_cached = len(blocks) * self.block_tokens
        self.slots.set_blocks(sequence.slot, blocks)
        self.slots.num_past[sequence.slot] = sequence.num_cached

    def fork(self, leader: Sequence, follower: Sequence) -> None:
        """Give `follower`, which owns nothing, a share in all that `leader` has computed."""
        self._share(follower, leader.blocks)
        follower.num_cached = leader.num_cached
        follower.num_registered = leader.num_registered
        follower.digests = list(leader.digests)
        self.states.fork(leader, follower)
        self.slots.num_past[follower.slot] = leader.num_cached

    def register(self, sequence: Sequence) -> None:
        """Register the blocks that a step has filled, so that other sequences find them; take its state."""
        full = sequence.num_cached // self.block_tokens
        if self.reuse_prefixes and full > sequence.num_registered:
            self._extend_digests(sequence, full)
            for index in range(sequence.num_registered, full):
                self.pool.register(sequence.blocks[index], sequence.digests[index])
            sequence.num_registered = full
        self.states.advance(sequence)

    def remove_prefixes(self) -> None:
        """What is cached now is found no more; running sequences keep what they own."""
        self.pool.remove_digests()
        self.states.pool.remove_digests()
        if self.stored is not None:
            self.stored.clear()

    def trim(self, sequence: Sequence) -> None:
        """Release the blocks and states that were reserved for draft tokens and have no accepted token."""
        self.states.trim(sequence)
        while len(sequence.blocks) > blocks_for(sequence.num_cached, self.block_tokens):
            self.pool.release(sequence.blocks.pop())
            self.slots.drop_block(sequence.slot)

    def evict(self, sequence: Sequence) -> bool:
        """Release the blocks of a sequence that must wait; returns whether its cache is swapped out.

        A waiting sequence has a pending token: a resting beam loses its last computed token.
        """
        if not sequence.num_pending:
            self._forget_last(sequence)
        num_blocks = len(sequence.blocks)
        if sequence.host_blocks or may_swap_out(sequence.num_cached, num_blocks, self.swap.num_free):
            self.swap.swap_out(sequence)
            self._release_blocks(sequence)
        else:
            self.release(sequence)
        return bool(sequence.host_blocks)

    def release(self, sequence: Sequence) -> None:
        """Release all blocks of a sequence, on the device and in host memory."""
        self._release_blocks(sequence)
        self.swap.drop(sequence)
        self.states.drop(sequence)
        sequence.num_cached = 0

    def _release_blocks(self, sequence: Sequence) -> None:
        """The end of a context is the first to be reused for other content."""
        for block in reversed(sequence.blocks):
            self.pool.release(block)
        self.encoder_blocks.release(sequence)
        sequence.blocks = []
        sequence.num_registered = 0

    def _forget_last(self, sequence: Sequence) -> None:
        sequence.num_cached -= 1
        if blocks_for(sequence.num_cached, self.block_tokens) < len(sequence.blocks):
            self.pool.release(sequence.blocks.pop())
            self.slots.drop_block(sequence.slot)

    def _extend_digests(self, sequence: Sequence, num_blocks: int) -> None:
        prefix_digests.extend(
            sequence.digests,
            sequence.request.root,
            sequence.token_ids,
            num_blocks=num_blocks,
            block_tokens=self.block_tokens,
            images=sequence.request.images,
        )

    def _shared_column(self, slice: Slice) -> int | None:
        """The column of a partly filled block that the slice writes to and that has other owners."""
        column = slice.start // self.block_tokens
        blocks = slice.sequence.blocks
        if column < len(blocks) and self.pool.references[blocks[column]] > 1:
            return column
        return None

    def _reserve(self, slices: Many[Slice], reservations: list[Reservation]) -> list[tuple[int, int]]:
        copies: list[tuple[int, int]] = []
        for slice in slices:
            column = self._shared_column(slice)
            if column is not None:
                copies.append(self._replace(slice.sequence, column, reservations))
            num_blocks = blocks_for(slice.end + slice.draft_budget, self.block_tokens)
            for _ in range(num_blocks - len(slice.sequence.blocks)):
                self._grow(slice.sequence, reservations)
        return copies

    def _replace(self, sequence: Sequence, column: int, reservations: list[Reservation]) -> tuple[int, int]:
        source, target = sequence.blocks[column], self.pool.take()
        reservations.append(Reservation(sequence, column, source))
        self._put(sequence, column, target)
        self.pool.release(source)  # never the last owner, so the source stays as it is
        return source, target

    def _grow(self, sequence: Sequence, reservations: list[Reservation]) -> None:
        block = self.pool.take()
        reservations.append(Reservation(sequence, len(sequence.blocks), replaced=None))
        sequence.blocks.append(block)
        self.slots.add_block(sequence.slot, block)

    def _put(self, sequence: Sequence, column: int, block: int) -> None:
        sequence.blocks[column] = block
        self.slots.replace_block(sequence.slot, column, block)

    def _undo(self, reservation: Reservation) -> None:
        sequence = reservation.sequence
        self.pool.release(sequence.blocks[reservation.column])
        if reservation.replaced is None:
            sequence.blocks.pop()
            self.slots.drop_block(sequence.slot)
        else:
            self.pool.share(reservation.replaced)
            self._put(sequence, reservation.column, reservation.replaced)

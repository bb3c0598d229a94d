"""The recurrent states that some models keep for each sequence beside its keys and values.

A state stands for all tokens before it: unlike blocks it can neither be cut nor shared with a longer text. So
a step reads one row of the states and writes others: one for each length that its sequence may be set to.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST
from pipelines.inference.engine.kv_cache.block_pool import BlockPool
from pipelines.inference.engine.sequences.sequence import Sequence, Slice

MIN_BRANCH_BLOCKS = 2
"""A prompt is computed up to its branch in a step of its own, which costs as much as some tokens more."""


class StateWrite(NamedTuple):
    """A row for the state after the first `position` tokens of a sequence."""

    position: int
    row: int


class StateRows(NamedTuple):
    """What a step does with the states of one sequence, as `Step` has it."""

    rows: list[int]
    interval: int


class SequenceStates:
    """`num_rows` rows, each for the state of one sequence; none for a model without states.

    Between two steps a running sequence with computed tokens has a share in one row, that of its state:
    no step writes to it, so choices and beams share it, and a failed step changes nothing.  At least half of
    the rows are free for the next step where no more than that many sequences run.

    With `keeps` (prefixes are reused) rows stay findable by the digest of the tokens that they stand for,
    free or not, until they are taken: the state after a prompt's last whole block, the one at the branch of
    a prompt, and the newest one that was written after any whole block of a sequence.
    """

    def __init__(self, num_rows: int, block_tokens: int, keeps: bool) -> None:
        self.pool = BlockPool(num_rows)
        self.used = num_rows > 0
        self.held: dict[Sequence, int] = {}  # sequence → the row of its state
        self._block_tokens = block_tokens
        self._keeps = keeps
        self._writes: dict[Sequence, list[StateWrite]] = {}  # of the step, ascending
        self._newest: dict[Sequence, bytes] = {}

    def num_spare(self, num_slices: int) -> int:
        """Rows that a step of that many slices leaves for draft tokens."""
        return self.pool.num_free - num_slices

    def num_usable(self, sequence: Sequence, num_blocks: int) -> int:
        """How many of the `num_blocks` cached blocks of a prompt a stored state follows.

        Sets the prompt's branch: where it leaves what is cached, and has no state.
        """
        usable = num_blocks
        while usable and self.pool.find(sequence.digests[usable - 1]) is None:
            usable -= 1
        branch = num_blocks * self._block_tokens
        is_long = num_blocks - usable >= MIN_BRANCH_BLOCKS
        sequence.branch = branch if is_long and branch < self._last_whole(len(sequence.token_ids)) else 0
        return usable

    def begin(self, sequence: Sequence, num_blocks: int) -> None:
        """Give a sequence a share in the state that follows its first blocks; it has none at 0."""
        if num_blocks:
            row = self.pool.find(sequence.digests[num_blocks - 1])
            assert row is not None, "no step has run since it was found"
            self._share(sequence, row)

    def fork(self, leader: Sequence, follower: Sequence) -> None:
        """Give `follower`, which has no state, a share in that of `leader`."""
        row = self.held.get(leader)
        if row is not None:
            self._share(follower, row)

    def reserve(self, slices: Many[Slice]) -> list[StateRows]:
        """Take the rows that a step will write; what each slice reads and writes."""
        if not self.used:
            return []
        spare = self.pool.num_free - sum(1 + slice.draft_budget for slice in slices)
        reserved: list[StateRows] = []
        for slice in slices:
            between = self._between(slice) if spare > 0 else 0
            spare -= bool(between)
            positions = [slice.end + ahead for ahead in range(slice.draft_budget + 1)]
            writes = [StateWrite(at, self.pool.take()) for at in ([between] if between else []) + positions]
            self._writes[slice.sequence] = writes
            rows = [self.held.get(slice.sequence, NO_STATE), *(write.row for write in writes)]
            reserved.append(StateRows(rows, 1 if slice.draft_budget else between or ONLY_LAST))
        return reserved

    def undo(self) -> None:
        """The step has failed: what it has written is no state."""
        for sequence in list(self._writes):
            self.trim(sequence)

    def advance(self, sequence: Sequence) -> None:
        """Set the state of a sequence to that after its cached tokens, as the step wrote it."""
        writes = self._writes.get(sequence, [])
        while writes and writes[0].position <= sequence.num_cached:
            position, row = writes.pop(0)
            self._release(sequence)
            self.held[sequence] = row
            if self._keeps and position % self._block_tokens == 0:
                self._keep(sequence, position, row)

    def trim(self, sequence: Sequence) -> None:
        """Release the rows of the step that are beyond the cached tokens: of rejected draft tokens."""
        for write in self._writes.pop(sequence, []):
            self.pool.release(write.row)

    def drop(self, sequence: Sequence) -> None:
        """The sequence has no state any more; what was stored of it stays findable."""
        self._newest.pop(sequence, None)
        self.trim(sequence)
        self._release(sequence)

    def _share(self, sequence: Sequence, row: int) -> None:
        self.pool.share(row)
        self.held[sequence] = row

    def _release(self, sequence: Sequence) -> None:
        row = self.held.pop(sequence, None)
        if row is not None:
            self.pool.release(row)

    def _last_whole(self, num_tokens: int) -> int:
        """The end of the last whole block that a prompt of `num_tokens` could reuse."""
        return (num_tokens - 1) // self._block_tokens * self._block_tokens

    def _between(self, slice: Slice) -> int:
        """The position within a slice whose state is to be stored; 0: none.

        At most a block follows it, so its only multiple up to the end of the slice is itself, or both.
        """
        last = self._last_whole(len(slice.sequence.token_ids)) if self._keeps else 0
        return last if slice.start < last < slice.end else 0

    def _keep(self, sequence: Sequence, position: int, row: int) -> None:
        digest = sequence.digests[position // self._block_tokens - 1]
        self.pool.register(row, digest)
        if position in (sequence.branch, self._last_whole(sequence.num_prompt)):
            return
        former = self._newest.pop(sequence, None)
        if former is not None:
            self.pool.remove_digest(former)
        if self.pool.find(digest) == row:
            self._newest[sequence] = digest

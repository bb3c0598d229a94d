"""Host memory for what preempted sequences have computed: swapped out for the wait, swapped in to run again.

Knows sequences and numbers of blocks; knows nothing of who should run, and moves nothing itself: a step does.
"""

from __future__ import annotations

from pipelines.host.engine.sequence import Sequence


class SwapSpace:
    """`num_blocks` host blocks, each free or in the `host_blocks` of one sequence.

    A sequence with host blocks owns exactly those that its `num_cached` tokens fill.  It waits, and is in
    `swapping_out` until a step has filled them; or it was admitted again, and is in `swapping_in` until a
    step has read them.  What a failed step moved is not known: nothing of `swapping_out` may be trusted after
    it, while
    `swapping_in` may be moved once more, since host blocks stay owned until the step is through.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.free = list(reversed(range(num_blocks)))
        self.swapping_out: dict[Sequence, list[int]] = {}  # → the blocks that held its content
        self.swapping_in: dict[Sequence, int] = {}  # → how many of its first blocks it found on the device

    @property
    def num_free(self) -> int:
        return len(self.free)

    def swap_out(self, sequence: Sequence) -> None:
        """Have the next step move a sequence's blocks to the host; they may be released at once.

        Needs as many free host blocks, except for a sequence that no step has swapped in yet.
        """
        if self.swapping_in.pop(sequence, None) is None:
            self.swapping_out[sequence] = list(sequence.blocks)
            sequence.host_blocks = [self.free.pop() for _ in sequence.blocks]

    def swap_in(self, sequence: Sequence, num_found: int) -> None:
        """Have a step bring back what lies behind the first `num_found` blocks.

        Its host blocks are given back if those are all, or if no step has filled them yet.
        """
        if sequence in self.swapping_out or num_found >= len(sequence.host_blocks):
            self.drop(sequence)
        else:
            self.swapping_in[sequence] = num_found

    def drop(self, sequence: Sequence) -> None:
        """Forget what the host holds of a sequence, if it holds anything."""
        self.free += reversed(sequence.host_blocks)
        sequence.host_blocks = []
        self.swapping_out.pop(sequence, None)
        self.swapping_in.pop(sequence, None)

    def transfer(self, sequence: Sequence, successor: Sequence) -> None:
        """Make `successor`, which has computed the same tokens, the owner of a sequence's host blocks."""
        successor.host_blocks, sequence.host_blocks = sequence.host_blocks, []
        if sequence in self.swapping_out:
            self.swapping_out[successor] = self.swapping_out.pop(sequence)
        if sequence in self.swapping_in:
            self.swapping_in[successor] = self.swapping_in.pop(sequence)

    def swaps_out(self) -> list[tuple[int, int]]:
        """(block, host block) pairs for the next step, to be moved before any block is written."""
        return [
            pair
            for sequence, blocks in self.swapping_out.items()
            for pair in zip(blocks, sequence.host_blocks, strict=True)
        ]

    def swaps_in(self) -> list[tuple[int, int]]:
        """(host block, block) pairs for the next step, which has lent the blocks.

        All who arrive have a share of it: admission gave them one, and if that step was interrupted, the next
        gives everyone the same again, for nothing of what runs has changed.
        """
        return [
            pair
            for sequence, num_found in self.swapping_in.items()
            for pair in zip(
                sequence.host_blocks[num_found:],
                sequence.blocks[num_found : len(sequence.host_blocks)],
                strict=True,
            )
        ]

    def finish_swaps(self) -> None:
        """The step is through: who left is gone, who arrived needs the host no more."""
        self.swapping_out.clear()
        for sequence in list(self.swapping_in):
            self.drop(sequence)

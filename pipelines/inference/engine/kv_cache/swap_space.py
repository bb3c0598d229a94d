"""Host memory for the cache of preempted sequences: swapped out while they wait, swapped in to run again.

The blocks themselves are moved by a step.
"""

from __future__ import annotations

from pipelines.inference.engine.sequences.sequence import Sequence


class SwapSpace:
    """`num_blocks` host blocks, each free or in the `host_blocks` of one sequence.

    A sequence with host blocks owns exactly those that its `num_cached` tokens fill.  It waits, and is in
    `swapping_out` until a step has filled them; or it was admitted again, and is in `swapping_in` until a
    step has read them.  What a failed step moved is unknown: nothing of `swapping_out` may be trusted after
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
        """Have a step bring back the blocks after the first `num_found`.

        Its host blocks are released if those are all, or if no step has filled them yet.
        """
        if sequence in self.swapping_out or num_found >= len(sequence.host_blocks):
            self.drop(sequence)
        else:
            self.swapping_in[sequence] = num_found

    def drop(self, sequence: Sequence) -> None:
        """Release the host blocks of a sequence, if it has any."""
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

        Each sequence that is swapped in takes part in the step: admission gave it a slice, and after an
        interrupted step the next plan gives the same slices again, since no running sequence has changed.
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
        """The step has succeeded: release the host blocks of all that were swapped in."""
        self.swapping_out.clear()
        for sequence in list(self.swapping_in):
            self.drop(sequence)

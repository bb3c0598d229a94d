"""The recurrent states that some models keep for each sequence beside its keys and values.

The state of a running sequence is in the row of its slot.  A step overwrites it, so it stands for exactly
`num_cached` tokens: it cannot be shared, cut, or computed twice as blocks can.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

from pipelines.host.engine.sequence import Sequence, Slice


class SequenceStates:
    """Which states the next step copies; none where `used` is false, for a model without states.

    A sequence without computed tokens needs no state: the model begins with zeros.
    """

    def __init__(self, used: bool) -> None:
        self.used = used
        self._sources: dict[Sequence, int] = {}  # sequence → the slot whose state it continues

    def fork(self, leader: Sequence, follower: Sequence) -> None:
        """Let the next step give `follower` what is computed of `leader`, whose slot may be freed."""
        if self.used and leader.num_cached:
            self._sources[follower] = self._sources.get(leader, leader.slot)

    def drop(self, sequence: Sequence) -> None:
        """The sequence has no state any more."""
        self._sources.pop(sequence, None)

    def copies(self) -> list[tuple[int, int]]:
        """(from slot, to slot) pairs for the next step; every state is read before one is written."""
        return [(source, sequence.slot) for sequence, source in self._sources.items()]

    def finish_copies(self) -> None:
        """The step has succeeded."""
        self._sources.clear()

    def lost_with(self, slices: Many[Slice]) -> list[Sequence]:
        """The sequences whose states are unknown after a failed step of `slices`."""
        return [*{slice.sequence for slice in slices}.union(self._sources)] if self.used else []

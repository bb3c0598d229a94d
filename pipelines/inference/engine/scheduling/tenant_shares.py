"""Turns between tenants: the sequences of each that wait, and what each holds of the engine."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, KeysView
from heapq import merge

from pipelines.inference.engine.sequences.sequence import Sequence


def by_turn(sequence: Sequence) -> tuple[int, int]:
    """The order of one tenant's sequences: smaller priority first, then the older."""
    return sequence.request.params.priority, sequence.submit_order


def is_background(sequence: Sequence) -> bool:
    """Whether it gives way to every sequence that is not."""
    return sequence.request.params.is_background


class TenantShares:
    """What each tenant holds: the larger of its parts of all slots and of all blocks (dominant resource
    fairness: Ghodsi et al., 2011).

    `fair` is the part of everything that each tenant with work may claim.
    """

    def __init__(
        self, running: Iterable[Sequence], waiting: KeysView[str], num_slots: int, num_blocks: int
    ) -> None:
        self._num_slots = num_slots
        self._num_blocks = num_blocks
        self._slots: dict[str, int] = dict.fromkeys(waiting, 0)
        self._blocks = self._slots.copy()
        for sequence in running:
            self.add(sequence)
        self.fair = 1 / max(1, len(self._slots))

    def add(self, sequence: Sequence, sign: int = 1) -> None:
        """The sequence and its followers begin to run; with -1 they stop, before their blocks are free."""
        tenant, slots, blocks = sequence.request.tenant, self._slots, self._blocks
        slots[tenant] = slots.get(tenant, 0) + sign * (1 + len(sequence.followers))
        blocks[tenant] = blocks.get(tenant, 0) + sign * len(sequence.blocks + sequence.encoder_blocks)

    def of(self, tenant: str) -> float:
        return max(self._slots[tenant] / self._num_slots, self._blocks[tenant] / self._num_blocks)

    def turn(self, sequence: Sequence) -> tuple[int, float, int]:
        """The order between tenants: smaller priority, then the tenant that holds less, then the older."""
        priority, submit_order = by_turn(sequence)
        return priority, self.of(sequence.request.tenant), submit_order

    def may_claim(self, sequence: Sequence, num_blocks: int) -> bool:
        """Whether a sequence that needs `num_blocks` is within its tenant's fair part of everything."""
        slots = self._slots[sequence.request.tenant] + len(sequence.group)
        blocks = self._blocks[sequence.request.tenant] + num_blocks
        return slots <= self.fair * self._num_slots and blocks <= self.fair * self._num_blocks

    def last_in_turn(self, running: Iterable[Sequence]) -> Sequence | None:
        """The sequence that gives way first: among the least urgent, the youngest of who holds most."""
        return max(running, key=self.turn, default=None)

    def last_beyond(self, running: Iterable[Sequence], priority: int) -> Sequence | None:
        """The last in turn of the tenants that hold more than their fair part, and of no smaller priority."""
        return self.last_in_turn(
            one
            for one in running
            if one.request.params.priority >= priority and self.of(one.request.tenant) > self.fair
        )


class WaitingSequences:
    """The sequences that wait; those of one tenant in turn.  Iterates over all of them, in turn."""

    def __init__(self) -> None:
        self._queues: dict[str, list[Sequence]] = {}

    def __iter__(self) -> Iterator[Sequence]:
        return merge(*self._queues.values(), key=by_turn)

    def __bool__(self) -> bool:
        return bool(self._queues)

    @property
    def tenants(self) -> KeysView[str]:
        return self._queues.keys()

    @property
    def heads(self) -> Iterator[Sequence]:
        """The next sequence of each tenant."""
        return (queue[0] for queue in self._queues.values())

    def add(self, sequence: Sequence) -> None:
        insort(self._queues.setdefault(sequence.request.tenant, []), sequence, key=by_turn)

    def remove(self, sequence: Sequence) -> None:
        """A sequence that does not wait, like a follower, is no error."""
        queue = self._queues.get(sequence.request.tenant, [])
        if sequence in queue:
            queue.remove(sequence)
            if not queue:
                del self._queues[sequence.request.tenant]

    def first(self, shares: TenantShares | None) -> Sequence:
        """The next to be admitted: of the smallest priority, of the tenant that holds the least, the oldest.

        `shares` is needed where several tenants wait.
        """
        if len(self._queues) == 1:
            return next(self.heads)
        assert shares is not None
        return min(self.heads, key=shares.turn)

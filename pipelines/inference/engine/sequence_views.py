"""What is shown of the sequences of an engine: of each its state and its progress, never its tokens."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.inference.engine.interface.engine_contract import Identity
from pipelines.inference.engine.scheduling.scheduler import StepScheduler
from pipelines.inference.engine.sequences.sequence import NO_SLOT, Sequence
from pipelines.wire.engine_view import RequestState, SequenceView


def in_turn(scheduler: StepScheduler) -> Iterator[Sequence]:
    """All that run, then all that wait, in their turns."""
    for sequence in scheduler.running:
        yield from sequence.group
    for sequence in scheduler.waiting:
        yield from sequence.group


def view_of(sequence: Sequence, identity: Identity) -> SequenceView:
    leader = sequence.leader or sequence  # which computes the prompt for its followers
    return SequenceView(
        identity.name,
        sequence.choice,
        _state(sequence, leader),
        sequence.num_prompt,
        min(leader.num_cached, sequence.num_prompt),
        leader.num_reused or 0,
        sequence.num_output,
        sequence.request.max_length - sequence.num_prompt,
        len(sequence.blocks) + len(sequence.encoder_blocks),
        identity.age_s,
        identity.adapter,
        identity.tenant,
    )


def _state(sequence: Sequence, leader: Sequence) -> RequestState:
    if sequence.slot != NO_SLOT:
        return "running"
    return "swapped" if leader.host_blocks else "waiting"

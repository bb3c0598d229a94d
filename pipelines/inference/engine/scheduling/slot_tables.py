"""The slots of sequences that run, and the tables of what each slot holds: blocks, sampling, drafts."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.inference.engine.sequences.sequence import NO_SLOT, Sequence
from pipelines.inference.engine.sequences.slots import SequenceSlots
from pipelines.inference.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.inference.sampling.sampling_slots import SamplingSlots


@dataclass(slots=True)
class SlotTables:
    """One slot for each sequence that runs, with the same number in three tables.

    `speculation` is None for an engine without a speculation node.
    """

    slots: SequenceSlots
    sampling: SamplingSlots
    speculation: SpeculationSlots | None = None

    def has_room(self, sequence: Sequence) -> bool:
        """Whether there is a slot for a waiting sequence, and one for each follower."""
        return len(sequence.group) <= len(self.slots.free)

    def take(self, sequence: Sequence) -> None:
        """Give a sequence and its followers their slots; when one is refused, none has any."""
        try:
            for member in sequence.group:
                member.slot = self.slots.take(member.token_ids[-1], member.shift, member.request.adapter)
                self._set_sampling(member)
        except BaseException:
            for member in sequence.group:
                self.free(member)
            raise

    def free(self, sequence: Sequence) -> None:
        """Free the slot of one sequence; a waiting one has none."""
        if sequence.slot != NO_SLOT:
            self.sampling.clear(sequence.slot)
            if self.speculation is not None:
                self.speculation.clear(sequence.slot)
            self.slots.release(sequence.slot)
            sequence.slot = NO_SLOT

    def _set_sampling(self, sequence: Sequence) -> None:
        prompt_ids = sequence.token_ids[: sequence.num_prompt]
        output_ids = sequence.token_ids[sequence.num_prompt :]
        end_token_ids = sorted(sequence.request.eos_token_ids | sequence.request.stop_token_ids)
        self.sampling.set(
            sequence.slot,
            sequence.request.params,
            prompt_ids,
            output_ids,
            sequence.choice,
            end_token_ids,
            sequence.guide,
        )
        if self.speculation is not None:
            params = sequence.request.params
            self.speculation.set(sequence.slot, sequence.token_ids, params, sequence.num_prompt)

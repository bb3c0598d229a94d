"""What speculation nodes need of each running sequence, by slot, from step to step."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.speculation.step_cost import StepCost
from pipelines.wire.sampling_params import SamplingParams

NO_TOKENS: array[int] = array("q")


class SpeculationSlots:
    """One slot for each running sequence, as in `Rows`; free slots are undefined.

    `token_ids[slot]` are all its tokens, the engine's own list, which speculation nodes may read and store.
    `owner[slot]` is unique to one tenancy of the slot: a node that stores state by slot compares it.
    `expected[slot]` are the tokens that its output probably has, and `num_prompt[slot]` those of its prompt.
    `threshold`, `max_ngram` (0: the graph's setting) and `wants_logprobs` are from its request. `cost`
    estimates the seconds of a step.  `is_asked_always`: a node wants to see every step, whatever another one
    says.  For the engine's thread only.
    """

    def __init__(self, num_slots: int) -> None:
        self.token_ids: list[array[int]] = [NO_TOKENS] * num_slots
        self.owner = [0] * num_slots
        self.expected: list[list[int]] = [[]] * num_slots
        self.num_prompt = [0] * num_slots
        self.threshold: NDArray[np.float32] = np.zeros(num_slots, np.float32)
        self.max_ngram = [0] * num_slots
        self.wants_logprobs: NDArray[np.bool_] = np.zeros(num_slots, np.bool_)
        self.cost = StepCost()
        self.is_asked_always = False
        self._stays = 0
        self._num_rests = 0

    def set(self, slot: int, token_ids: array[int], params: SamplingParams, num_prompt: int) -> None:
        """Assign the slot to a sequence; again after a preemption."""
        self._stays += 1
        self._num_rests = 0
        self.owner[slot] = self._stays
        self.token_ids[slot] = token_ids
        self.expected[slot], self.num_prompt[slot] = params.expected_ids, num_prompt
        self.threshold[slot] = params.draft_threshold
        self.max_ngram[slot] = params.max_ngram or 0
        self.wants_logprobs[slot] = params.draft_logprobs

    def rest(self, num_steps: int) -> None:
        """No draft tokens in the next steps: they are planned as without speculation, until one that has a
        new sequence.
        """
        self._num_rests = num_steps

    def is_due(self) -> bool:
        """Whether the next step may have draft tokens; called once for each."""
        if self._num_rests == 0 or self.is_asked_always:
            return True
        self._num_rests -= 1
        return False

    def clear(self, slot: int) -> None:
        self.token_ids[slot], self.expected[slot] = NO_TOKENS, []

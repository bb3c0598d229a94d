"""The sampling parameters and state of each running sequence, by slot, from step to step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ops.contract import RowSampling
from pipelines.inference.contracts.guide import Guide
from pipelines.inference.sampling.logit_edits import RowEdits, has_edits
from pipelines.wire.sampling_params import SamplingParams

NO_LIMIT = 2**31 - 1
"""A top_k that is off."""
NO_IDS = np.empty(0, np.int64)


class SamplingSlots:
    """Parameters and state of the running sequences, by slot.

    Arrays are indexed by slot; a free slot is greedy and has no edits.
    `draws` says how each slot's token is chosen; its counters are those of a step (`counters_of`).
    `num_outputs[slot]` counts the output tokens so far: with the slot's key it is all that a random number
    depends on, so a sequence draws the same tokens in any batch, in any slot, and after a preemption.
    `edits[slot]` is None, or what changes single logits of the slot before a token is chosen; `guides[slot]`
    is None, or restricts the next tokens.  `plain[slot]`: the likeliest token is chosen, of logits without
    edits, and no log-probability is wanted.
    Log-probabilities are those of logits / `logprob_temperature[slot]`, within the nucleus of
    `logprob_top_p[slot]` (both 1: of the model's own), with `logprob_ids[slot]`, if any, as alternatives.
    For the engine's thread only.
    """

    def __init__(self, num_slots: int, vocab_size: int) -> None:
        self.num_slots = num_slots
        self.vocab_size = vocab_size
        self.draws = RowSampling(
            temperature=np.zeros(num_slots, np.float32),
            min_p=np.zeros(num_slots, np.float32),
            top_k=np.full(num_slots, NO_LIMIT, np.int64),
            top_p=np.ones(num_slots, np.float32),
            keys=np.zeros(num_slots, np.uint64),
            counters=np.zeros(num_slots, np.uint64),
        )
        self.num_outputs = np.zeros(num_slots, np.int64)
        self.num_logprobs = np.full(num_slots, -1, np.int64)  # -1: none
        self.logprob_ids: list[NDArray[np.int64]] = [NO_IDS] * num_slots
        self.logprob_temperature = np.ones(num_slots, np.float32)
        self.logprob_top_p = np.ones(num_slots, np.float32)
        self.edits: list[RowEdits | None] = [None] * num_slots
        self.edited = np.zeros(num_slots, np.bool_)
        self.plain = np.ones(num_slots, np.bool_)
        self.guides: list[Guide | None] = [None] * num_slots

    def set(
        self,
        slot: int,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        output_ids: Sequence[int],
        choice: int,
        end_token_ids: Sequence[int],
        guide: Guide | None = None,
    ) -> None:
        """Assign the slot to a sequence; again after a preemption, with the output so far.

        Ids must lie in the vocabulary (`check_ids`).  `end_token_ids` are impossible before `min_tokens`.
        """
        self.draws.temperature[slot] = params.temperature
        self.draws.min_p[slot] = params.min_p
        self.draws.top_k[slot] = params.top_k if params.top_k > 0 else NO_LIMIT
        self.draws.top_p[slot] = params.top_p
        self.draws.keys[slot] = random_key(params.seed, choice)
        self.num_outputs[slot] = len(output_ids)
        self._set_logprobs(slot, params)
        needed = has_edits(params)
        self.edited[slot] = needed
        self.edits[slot] = RowEdits(params, prompt_ids, output_ids, end_token_ids) if needed else None
        self.plain[slot] = not needed and params.temperature == 0 and self.num_logprobs[slot] < 0
        self.guides[slot] = guide

    def _set_logprobs(self, slot: int, params: SamplingParams) -> None:
        """Named ids replace the most likely ones; a greedy choice has no temperature to divide by."""
        named, scaled = params.logprob_token_ids, params.temp_scaled_logprobs and params.temperature > 0
        num_top = 0 if named else params.logprobs
        self.num_logprobs[slot] = -1 if num_top is None else min(num_top, self.vocab_size)
        self.logprob_ids[slot] = np.array(named, np.int64) if named else NO_IDS
        self.logprob_temperature[slot] = params.temperature if scaled else 1
        self.logprob_top_p[slot] = params.top_p if params.top_p_normalized_logprobs else 1

    def append(self, slot: int, token_id: int) -> None:
        """Record a committed output token of the slot's sequence."""
        self.num_outputs[slot] += 1
        edits = self.edits[slot]
        if edits is not None:
            edits.append(token_id)

    def clear(self, slot: int) -> None:
        """The slot is free."""
        self.draws.temperature[slot] = 0
        self.num_logprobs[slot] = -1
        self.edited[slot] = False
        self.edits[slot] = None
        self.plain[slot] = True
        self.guides[slot] = None


def random_key(seed: int, choice: int) -> np.uint64:
    """The key of a choice's random numbers: the seed itself for choice 0, else both mixed (SplitMix64)."""
    key = (seed + choice * 0x9E3779B97F4A7C15) % 2**64
    if choice:
        key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        key = (key ^ key >> 27) * 0x94D049BB133111EB % 2**64
        key ^= key >> 31
    return np.uint64(key)

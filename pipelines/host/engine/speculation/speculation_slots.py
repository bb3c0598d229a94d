"""What speculation nodes need of each running sequence, kept in rows from step to step.

Knows rows and token ids; knows nothing of steps, or of how draft tokens are made.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from pipelines.host.engine.speculation.step_cost import StepCost
from pipelines.wire.sampling_params import SamplingParams

NO_TOKENS: array[int] = array("q")


class SpeculationSlots:
    """One row for each running sequence, as in `Rows`; rows that no sequence holds are undefined.

    `token_ids[row]` are all its tokens, the engine's own list: speculation nodes read it, and may keep it.
    `owner[row]` is unique to a sequence's stay in the row: a node that keeps something of a row compares it.
    `threshold`, `max_ngram` (0: as the graph says) and `tell_logprobs` are what its request asked.
    `cost` says what steps take.  Owned by the thread that runs the engine.
    """

    def __init__(self, num_rows: int) -> None:
        self.token_ids: list[array[int]] = [NO_TOKENS] * num_rows
        self.owner: NDArray[np.int64] = np.zeros(num_rows, np.int64)
        self.threshold: NDArray[np.float32] = np.zeros(num_rows, np.float32)
        self.max_ngram: NDArray[np.int64] = np.zeros(num_rows, np.int64)
        self.tell_logprobs: NDArray[np.bool_] = np.zeros(num_rows, np.bool_)
        self.cost = StepCost()
        self._stays = 0

    def set(self, row: int, token_ids: array[int], params: SamplingParams) -> None:
        """Give the row to a sequence; after a preemption again."""
        self._stays += 1
        self.owner[row] = self._stays
        self.token_ids[row] = token_ids
        self.threshold[row] = params.draft_threshold
        self.max_ngram[row] = params.max_ngram or 0
        self.tell_logprobs[row] = params.draft_logprobs

    def clear(self, row: int) -> None:
        self.token_ids[row] = NO_TOKENS

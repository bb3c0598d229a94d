"""The memory of a paged decoder's recurrent states: tables with a row for each slot."""

from __future__ import annotations

import numpy as np

from pipelines.inference.backends.openvino.paging.input_tables import InputTables, TableLayout
from pipelines.inference.backends.openvino.paging.step_inputs import StepInputs, flat_blocks
from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST, Step

NUM_SPARE = 4
"""Most sequences of a warm-up step: each writes a row of its own, as the operators demand."""


class StateTables(InputTables):
    """`num_rows` rows, each for the state of one sequence; `zeros` is a row that nothing ever writes.

    NUM_SPARE rows from `spare` on belong to no sequence: only warm-up steps and padding write them.
    """

    def __init__(self, layout: TableLayout, num_rows: int) -> None:
        self.spare, self.zeros = num_rows, num_rows + NUM_SPARE
        super().__init__(layout, self.zeros + 1)

    def step_inputs(self, step: Step, num_more: int) -> StepInputs:
        """The inputs for the states of a step: which row each sequence reads, and which it writes.

        `num_more` sequences, which padding adds behind those of the step, write spare rows.
        """
        assert step.states is not None
        rows, begins = flat_blocks(step.states.table, 1 + step.num_state_writes)
        more = self.warmup_inputs(num_more)
        own = {
            "la.block_indices": np.where(rows == NO_STATE, np.int32(self.zeros), rows),
            "la.block_indices_begins": begins[:-1],
            "la.past_lens": step.num_past,
            "la.cache_interval": step.states.interval,
        }
        more["la.block_indices_begins"] += begins[-1]
        return {name: np.concatenate([array, more[name]]) for name, array in own.items()}

    def warmup_inputs(self, num_seqs: int) -> StepInputs:
        """The inputs of `num_seqs` sequences that begin, which write spare rows."""
        rows = np.full((num_seqs, 2), self.zeros, np.int32)
        rows[:, 1] = self.spare + np.arange(num_seqs)
        return {
            "la.block_indices": rows.reshape(-1),
            "la.block_indices_begins": np.arange(0, 2 * num_seqs + 1, 2, dtype=np.int32),
            "la.past_lens": np.zeros(num_seqs, np.int32),
            "la.cache_interval": np.full(num_seqs, ONLY_LAST, np.int32),
        }

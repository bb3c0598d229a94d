"""The memory of a paged decoder's recurrent states: tables with a row for each slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.host.backends.openvino.input_tables import InputTables, TableLayout
from pipelines.host.backends.openvino.step_inputs import StepInputs

AT_THE_END = 1 << 30
"""Tokens between two written states: a step writes only the state after its last token.

At 0 the operator for Mamba 2 would write none, so that a step would read zeros.
"""
NUM_SPARE = 4
"""Most sequences of a warm-up step: each writes a row of its own, as the operators demand."""


class StateTables(InputTables):
    """A row for each of `num_slots` slots; `zeros` is a row that nothing ever writes.

    NUM_SPARE rows from `spare` on belong to no sequence: only warm-up steps and padding write them.
    """

    def __init__(self, layout: TableLayout, num_slots: int) -> None:
        self.spare, self.zeros = num_slots, num_slots + NUM_SPARE
        super().__init__(layout, self.zeros + 1)

    def inputs(self, past: NDArray[np.int32], slots: NDArray[np.int32]) -> StepInputs:
        """The inputs for the states of a step: which row each sequence reads, and which it writes.

        A sequence without past begins with zeros; the sequences beyond `slots` write spare rows.
        """
        num_seqs = len(past)
        spare = self.spare + np.arange(num_seqs - len(slots), dtype=np.int32)
        rows = np.repeat(np.concatenate([slots, spare])[:, None], 2, axis=1)
        rows[past == 0, 0] = self.zeros
        return {
            "la.block_indices": rows.reshape(-1),
            "la.block_indices_begins": np.arange(0, 2 * num_seqs + 1, 2, dtype=np.int32),
            "la.past_lens": past,
            "la.cache_interval": np.full(num_seqs, AT_THE_END, np.int32),
        }

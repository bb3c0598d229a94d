"""The memory of a paged decoder's recurrent states: tables with a row for each slot."""

from __future__ import annotations

import math

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from pipelines.host.backends.host_memory import aligned_zeros
from pipelines.host.backends.openvino.paged_attention import STATE_INPUT
from pipelines.host.backends.openvino.step_inputs import StepInputs

AT_THE_END = 1 << 30
"""Tokens between two written states: a step writes only the state after its last token.

At 0 the operator for Mamba 2 would write none, so that a step would read zeros.
"""
NUM_SPARE = 4
"""Most sequences of a warm-up step: each writes a row of its own, as the operators demand."""


class StateLayout:
    """What one sequence's row of each state table holds in the compiled model; nothing for most models."""

    def __init__(self, compiled: ov.CompiledModel) -> None:
        inputs = {port.any_name: port for port in compiled.inputs if STATE_INPUT.fullmatch(port.any_name)}
        self.types = {name: port.get_element_type() for name, port in inputs.items()}
        self.row_shapes = {
            name: [size.get_length() for size in list(port.get_partial_shape())[1:]]
            for name, port in inputs.items()
        }
        self.bytes_per_input = {
            name: math.prod(self.row_shapes[name]) * self.types[name].bitwidth // 8 for name in inputs
        }
        self.state_bytes = sum(self.bytes_per_input.values())


class StateTables:
    """A row for each of `num_slots` slots, in host memory; `zeros` is a row that nothing ever writes.

    NUM_SPARE rows from `spare` on belong to no sequence: only warm-up steps and padding write them.
    """

    def __init__(self, layout: StateLayout, num_slots: int) -> None:
        self.spare, self.zeros = num_slots, num_slots + NUM_SPARE
        num_rows = self.zeros + 1
        self.bytes = {
            name: aligned_zeros(num_rows * size).reshape(num_rows, size)
            for name, size in layout.bytes_per_input.items()
        }
        self.tensors = {
            name: ov.Tensor(
                self.bytes[name].reshape(-1), [num_rows, *layout.row_shapes[name]], layout.types[name]
            )
            for name in self.bytes
        }

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

    def copy(self, pairs: NDArray[np.int32]) -> None:
        """Copy row `pairs[i, 0]` to row `pairs[i, 1]` of every table; all reads precede the writes."""
        sources, targets = pairs[:, 0], pairs[:, 1]
        for rows in self.bytes.values():
            rows[targets] = rows[sources]

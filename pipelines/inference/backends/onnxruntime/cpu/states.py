"""The memory of recurrent states, and the parts of a step, which write a state of each of their sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from pipelines.inference.backends.onnxruntime.cpu.recurrent import STATE, STATE_OUT
from pipelines.inference.contracts.step import NO_STATE, Step

Rows = NDArray[np.int32]


class OnnxCpuStates:
    """`num_rows` rows of the states of all nodes, whose `shapes` are those of one sequence.

    A row belongs to a sequence of the engine; a call reads copies of rows and gives those that are stored.
    """

    def __init__(self, shapes: Sequence[Sequence[int]], num_rows: int) -> None:
        self._tables = [np.zeros((num_rows, *shape), np.float32) for shape in shapes]
        self._before: list[NDArray[np.float32]] = []
        self._after: list[NDArray[np.float32]] = []

    def bind(self, binding: ort.IOBinding, rows: Rows) -> None:
        """Bind the states of sequences that read these `rows`, zeros for NO_STATE, and room for new ones."""
        self._before = [np.ascontiguousarray(table[rows]) for table in self._tables]
        self._after = [np.empty_like(states) for states in self._before]
        for number, (before, after) in enumerate(zip(self._before, self._after, strict=True)):
            before[rows == NO_STATE] = 0
            binding.bind_cpu_input(STATE.format(number), before)
            name, place = STATE_OUT.format(number), after.ctypes.data
            binding.bind_output(name, "cpu", 0, np.float32, list(after.shape), place)

    def store(self, rows: Rows) -> None:
        """Write what the call gave to these rows."""
        for table, after in zip(self._tables, self._after, strict=True):
            table[rows] = after


class StatePart(NamedTuple):
    """Sequences of a step, some of their tokens, and the rows of states that they read and write.

    `tokens`, `logits`, `sequences`: those of the step that the part computes, in order.
    """

    step: Step
    tokens: NDArray[np.int64]
    logits: NDArray[np.int64]
    sequences: NDArray[np.int64]
    read: Rows
    written: Rows


def parts_of(step: Step) -> Iterator[StatePart]:
    """The parts of a step, one after the other: a sequence that writes several states is in several."""
    everything = np.arange(step.num_tokens), np.arange(step.num_logits), np.arange(step.num_seqs)
    if step.states is None:
        yield StatePart(step, *everything, np.empty(0, np.int32), np.empty(0, np.int32))
        return
    writes, table = step.num_state_writes, step.states.table
    if writes.max() == 1:
        yield StatePart(step, *everything, table[:, 0], table[:, 1])
        return
    for number in range(writes.max()):
        yield _part(step, number, np.flatnonzero(writes > number))


def _part(step: Step, number: int, rows: NDArray[np.int64]) -> StatePart:
    """The tokens of sequences up to their write of this number, behind the one before."""
    assert step.states is not None
    interval, past = (values[rows].astype(np.int64) for values in (step.states.interval, step.num_past))
    ends = interval - past % interval + number * interval
    begins = np.maximum(ends - interval, 0)
    counts = np.minimum(ends, np.diff(step.starts)[rows]) - begins
    starts = np.concatenate([[0], np.cumsum(counts)])
    tokens = np.arange(starts[-1]) + np.repeat(step.starts[rows] + begins - starts[:-1], counts)
    place_of = np.full(step.num_tokens, -1)
    place_of[tokens] = np.arange(len(tokens))
    places = place_of[step.logit_indices]
    logits = np.flatnonzero(places >= 0)
    part = replace(
        step,
        token_ids=step.token_ids[tokens],
        positions=step.positions[tokens],
        position_shifts=None if step.position_shifts is None else step.position_shifts[tokens],
        starts=starts.astype(np.int32),
        num_past=(past + begins).astype(np.int32),
        block_table=step.block_table[rows],
        num_blocks=step.num_blocks[rows],
        logit_indices=places[logits],
    )
    read, written = (step.states.table[rows, number + column] for column in (0, 1))
    return StatePart(part, tokens, logits, rows, read, written)

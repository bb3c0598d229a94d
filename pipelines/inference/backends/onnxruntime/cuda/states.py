"""The rows of recurrent states in the memory of a GPU, and the records by which kernels find them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.cuda.device import Array, Device
from ops.cuda.recurrent import KERNELS, RECORD, records
from pipelines.inference.backends.onnxruntime.step_input_names import state_name
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST, Step

DECODE_WIDTH = RECORD + 1
"""Integers in a record of a sequence that writes one state."""


class OnnxCudaStates:
    """`num_rows` rows of each state, float32, and one more at index `scratch`, to which padding writes.

    `arrays` are by the name of the graph's input; there are none for a model of attention alone.
    """

    def __init__(self, device: Device, shapes: Sequence[tuple[int, ...]], num_rows: int = 0) -> None:
        self._device, self.scratch = device, num_rows
        self.arrays = {
            state_name(number): device.zeros((num_rows + 1, *shape), np.float32)
            for number, shape in enumerate(shapes)
        }

    def new_steps(self, num_sequences: int) -> Array | None:
        """An array for the records of decode steps of that many sequences; None where there are no states."""
        return self._device.empty((num_sequences, DECODE_WIDTH), np.int32) if self.arrays else None

    def fill(self, step: Step, num_sequences: int, into: Array | None = None) -> Array | None:
        """The records of a step, int32[num_sequences, width], `into` an array of that size where it is given.

        Padding sequences begin with zeros and write to `scratch`; so do all sequences of a step without
        states, which only measures or warms up.
        """
        if not self.arrays:
            return None
        host = step_records(step, num_sequences, self.scratch)
        if into is not None:
            host = host[:, :DECODE_WIDTH]
        return self._device.upload(np.ascontiguousarray(host), into)


def step_records(step: Step, num_sequences: int, scratch: int) -> NDArray[np.int32]:
    """int32[num_sequences, width], those of padding sequences, of one token each, behind the step's own."""
    starts = np.append(step.starts, step.starts[-1] + np.arange(1, num_sequences - step.num_seqs + 1))
    past, interval = np.zeros(num_sequences, np.int32), np.full(num_sequences, ONLY_LAST, np.int32)
    columns = 2 if step.states is None else step.states.table.shape[1]
    table = np.full((num_sequences, columns), scratch, np.int32)
    table[:, 0] = NO_STATE
    if step.states is not None:
        past[: step.num_seqs] = step.num_past
        interval[: step.num_seqs] = step.states.interval
        table[: step.num_seqs] = step.states.table
    return records(starts.astype(np.int32), past, interval, table)


class StateKernels:
    """A device's kernels in the operators' library, under `number`, int32[1], which lies on the host."""

    def __init__(self, device: Device, library: Path) -> None:
        """Raises `ModelError` where the library is for other kernels."""
        self._library = ctypes.CDLL(str(library))
        self._launcher = device.launcher(KERNELS)  # what it refers to lives as long as this
        functions = (ctypes.c_void_p * len(KERNELS))(*self._launcher.kernels)
        add: Any = self._library.braid_add_kernels
        add.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        self.number = np.array([add(self._launcher.launch, functions, len(KERNELS))], np.int32)
        if not self.number[0]:
            raise ModelError(f"{library} does not have the operators of this version's kernels.")

    def close(self) -> None:
        """Forget the kernels: no session launches them any more."""
        self._library.braid_remove_kernels(int(self.number[0]))

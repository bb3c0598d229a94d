"""The adapters of a session in the memory of its GPU, and which tokens of a step use which of them.

Each adapter is uploaded once, before its first step.  A step uploads only numbers of rows and owners, and
nothing where they equal those of the last step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops.cuda.device import Array, Device
from pipelines.adapters.weights import BASE, AdapterRoom, AdapterWeights
from pipelines.inference.backends.adapter_stacks import a_name, b_name
from pipelines.inference.backends.onnxruntime.cuda.kv_cache import STORAGE
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import ELEMENTS, LoraLinear
from pipelines.inference.backends.onnxruntime.step_input_names import ADAPTER_ROWS, ROW_OWNERS, TOKEN_OWNERS

EVERY = -1
"""The number in place of a load's: an adapter of all rows at once, for the step that measures memory."""
NO_OWNER = -2
"""The owner of rows that only fill a step's number of rows up."""
LEAST_RANK = 16
MAX_SETS = 256
"""Batches whose rows are remembered."""


class RowSet(NamedTuple):
    """The rows of a step's adapters, and the load number of each one's owner: int32[rank].

    `rank` is padded, so that few CUDA graphs serve all sets.
    """

    rows: NDArray[np.int32]
    owners: NDArray[np.int32]

    @property
    def rank(self) -> int:
        return len(self.rows)


class StepAdapters:
    """The inputs for adapters of a model call: views of `packed`, int32[2 * rank + tokens] on the device."""

    def __init__(self, packed: Array, rank: int) -> None:
        self.packed, self.rank = packed, rank
        self.inputs: dict[str, Array] = {
            ADAPTER_ROWS: packed[:rank],
            ROW_OWNERS: packed[rank : 2 * rank].reshape(1, rank),
            TOKEN_OWNERS: packed[2 * rank :].reshape(-1, 1),
        }
        self.sent: NDArray[np.int32] | None = None


def padded_rank(rank: int) -> int:
    """The rows of a step: the next power of two, or none."""
    return max(LEAST_RANK, 1 << (rank - 1).bit_length()) if rank else 0


class AdapterPools:
    """Room for `room.max_loaded` adapters of `room.max_rank` rows each; without linear layers it takes no
    memory.

    `arrays`: by the name of the graph's input, [max_loaded * max_rank, size_in or size_out].
    """

    def __init__(
        self, device: Device, linears: Sequence[LoraLinear], room: AdapterRoom | None = None
    ) -> None:
        self._device, self._linears = device, linears
        self._max_rank, num_places = (0, 0) if room is None else (room.max_rank, room.max_loaded)
        self._free = list(range(num_places))
        self._coming: dict[int, AdapterWeights] = {}
        self._placed: dict[int, int] = {}
        num_rows = num_places * self._max_rank
        self._rows = {EVERY: np.arange(num_rows, dtype=np.int32)}
        self._sets: dict[bytes, RowSet] = {}
        self.arrays: dict[str, Array] = {}
        self.elements: dict[str, int] = {}
        for linear in linears:
            element = ELEMENTS[linear.element]
            for name, size in _pools(linear):
                self.arrays[name] = device.zeros((num_rows, size), STORAGE[element.num_bytes])
                self.elements[name] = element.number
        self._own = device.empty(1, np.int32)
        self.none = StepAdapters(self._own, 0)

    def put(self, number: int, weights: AdapterWeights) -> None:
        self.drop(number)
        self._coming[number] = weights

    def drop(self, number: int) -> None:
        self._sets.clear()
        self._coming.pop(number, None)
        self._rows.pop(number, None)
        if number in self._placed:
            self._free.append(self._placed.pop(number))

    def rows_of(self, adapters: NDArray[np.int32]) -> RowSet:
        """The rows for a step whose sequences have these; uploads the weights that no step had before."""
        key = adapters.tobytes()
        if key not in self._sets:
            if len(self._sets) >= MAX_SETS:
                self._sets.clear()
            self._sets[key] = self._make_set(sorted({*adapters.tolist()} - {BASE}))
        return self._sets[key]

    def _make_set(self, numbers: list[int]) -> RowSet:
        for number in numbers:
            if number in self._coming:
                self._upload(number, self._coming[number])
                del self._coming[number]
        each = [self._rows[number] for number in numbers]
        rank = sum(map(len, each))
        padding = padded_rank(rank) - rank
        owners = np.repeat([*numbers, NO_OWNER], [*map(len, each), padding])
        return RowSet(np.concatenate([*each, np.zeros(padding, np.int32)]), owners.astype(np.int32))

    def _upload(self, number: int, weights: AdapterWeights) -> None:
        first = self._free[-1] * self._max_rank
        rows = slice(first, first + weights.rank)
        for linear in self._linears:
            lora = weights.linears.get(linear.name)
            sides = (None, None) if lora is None else (lora.a, lora.b.T)
            for (name, size), side in zip(_pools(linear), sides, strict=True):
                values = np.zeros((weights.rank, size), np.float32)
                if side is not None:
                    values[: len(side)] = side
                self._device.upload(to_element(values, linear.element), self.arrays[name][rows])
        self._placed[number] = self._free.pop()
        self._rows[number] = np.arange(rows.start, rows.stop, dtype=np.int32)

    def new_inputs(self, num_tokens: int, rank: int) -> StepAdapters:
        """Arrays of these sizes, with undefined content; those for no adapter are shared."""
        return StepAdapters(self._device.empty(2 * rank + num_tokens, np.int32), rank) if rank else self.none

    def fill(
        self,
        adapters: NDArray[np.int32],
        starts: NDArray[np.int32],
        num_tokens: int,
        into: StepAdapters | None = None,
    ) -> StepAdapters:
        """The inputs of a step whose tokens from `starts[i]` to `starts[i + 1]` are of the adapter
        `adapters[i]`, and then of the base up to `num_tokens`: `into`, which has these sizes, or own arrays,
        which the next step overwrites.
        """
        pool_rows = self.rows_of(adapters)
        if not pool_rows.rank:
            return self.none
        tokens = np.repeat(np.append(adapters, BASE), np.diff(starts, append=num_tokens))
        host = np.concatenate([pool_rows.rows, pool_rows.owners, tokens], dtype=np.int32)
        inputs = into or self._own_inputs(len(host), pool_rows.rank)
        if inputs.sent is None or not np.array_equal(host, inputs.sent):
            self._device.upload(host, inputs.packed)
            inputs.sent = host
        return inputs

    def _own_inputs(self, size: int, rank: int) -> StepAdapters:
        if size > len(self._own):
            self._own = self._device.empty(1 << (size - 1).bit_length(), np.int32)
        return StepAdapters(self._own[:size], rank)


def to_element(values: NDArray[np.float32], element: str) -> NDArray[Any]:
    """Rounds numbers to what a pool stores; bfloat16, which numpy lacks, is uint16, ties to even."""
    if element == "f32":
        return values
    if element == "f16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _pools(linear: LoraLinear) -> tuple[tuple[str, int], tuple[str, int]]:
    """The names of its pools, A's and B's, and the lengths of their rows."""
    return (a_name(linear.name), linear.size_in), (b_name(linear.name), linear.size_out)

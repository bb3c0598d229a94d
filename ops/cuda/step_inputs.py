"""Builds the padded inputs of a model call on the device from a packed step: one copy and one kernel.

Reference: `ops.cache_blocks.slot_mapping`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ops.cuda.device import Array, Device
from ops.cuda.packed_arrays import pack_arrays

THREADS = 256
PaddedShape = tuple[int, int, int, int]
"""T tokens, B sequences, W columns, N logit rows."""


class PackedStep(Protocol):
    """The fields of the engine's `Step` that are read here."""

    @property
    def token_ids(self) -> NDArray[np.int64]: ...  # [num_tokens]
    @property
    def positions(self) -> NDArray[np.int64]: ...  # [num_tokens]
    @property
    def starts(self) -> NDArray[np.int32]: ...  # [num_seqs + 1]
    @property
    def num_past(self) -> NDArray[np.int32]: ...  # [num_seqs]
    @property
    def block_table(self) -> NDArray[np.int32]: ...  # [num_seqs, columns]
    @property
    def num_blocks(self) -> NDArray[np.int32]: ...  # [num_seqs]
    @property
    def logit_indices(self) -> NDArray[np.int64]: ...  # [num_logits]


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The inputs of a model call on the device."""

    input_ids: Array  # int64[T]
    position_ids: Array  # int64[T]
    cumulative_sequence_length: Array  # int32[B + 1]
    past_seqlens: Array  # int32[B]
    block_table: Array  # int32[B, W]; every entry is a block
    slot_mapping: Array  # int32[T]: block * block_tokens + offset, or -1: store nothing
    logits_indices: Array  # int64[N], N >= 1

    @property
    def shape(self) -> PaddedShape:
        return (*self.input_ids.shape, *self.block_table.shape, *self.logits_indices.shape)


class StepInputBuffers:
    """Fills step inputs.  Its own arrays, used when none are given, are overwritten by the next `bind`."""

    def __init__(self, device: Device, max_tokens: int, max_sequences: int, columns: int) -> None:
        """The initial sizes; a larger step makes the arrays grow."""
        self._device = device
        self._own = new_step_inputs(device, max_tokens, max_sequences, columns, max_sequences)
        self._sent = device.empty(0, np.uint8)

    def bind(
        self,
        step: PackedStep,
        block_tokens: int,
        padded_tokens: int,
        padded_sequences: int,
        padded_columns: int,
        scratch_block: int,
        into: StepInputs | None = None,
    ) -> StepInputs:
        """Fill the inputs for a step, in the stream's order: `into`, which has the padded sizes, or own
        arrays.

        Padding sequences after the step's own have one token 0 at position 0, no past, and `scratch_block` in
        their whole table; so do a sequence's columns from its number of blocks on.  Nothing is stored in a
        scratch block: slot -1.  Padding logit rows are those of token 0, so that there is at least one.
        Columns of the step's table beyond the padded width are not read.
        """
        shape = (padded_tokens, padded_sequences, padded_columns, max(1, len(step.logit_indices)))
        if into is not None:
            shape = (*shape[:3], len(into.logits_indices))
        _check(step, shape, block_tokens, into)
        inputs = into or self._views(shape)
        sizes = len(step.token_ids), len(step.num_past), len(step.logit_indices), min(shape[2], _width(step))
        total = max(padded_tokens, padded_sequences * padded_columns, padded_sequences + 1, shape[3])
        numbers = map(np.int32, (*sizes, shape[0], shape[1], shape[3], shape[2], block_tokens, scratch_block))
        blocks = -(-total // THREADS)
        sent = self._send(step, sizes[3])
        self._device.launch(
            "build_step_inputs", blocks, THREADS, *sent, *numbers, np.int64(total), *_arrays(inputs)
        )
        return inputs

    def _send(self, step: PackedStep, columns: int) -> list[Array]:
        arrays = (
            step.token_ids,
            step.positions,
            step.logit_indices,
            step.starts,
            step.num_past,
            step.num_blocks,
        )
        packed = pack_arrays([*arrays, np.ascontiguousarray(step.block_table[:, :columns])])
        size = len(packed.bytes)
        if len(self._sent) < size:
            self._sent = self._device.empty(1 << (size - 1).bit_length(), np.uint8)
        return packed.layout.split(self._device.upload(packed.bytes, self._sent[:size]))

    def _views(self, shape: PaddedShape) -> StepInputs:
        """The first entries of the own arrays."""
        tokens, sequences, columns, logits = shape
        table, sizes = self._own.block_table.size, self._own.shape
        if tokens > sizes[0] or sequences > sizes[1] or logits > sizes[3] or sequences * columns > table:
            self._own = new_step_inputs(self._device, *map(max, shape, sizes))
        own = self._own
        return StepInputs(
            input_ids=own.input_ids[:tokens],
            position_ids=own.position_ids[:tokens],
            cumulative_sequence_length=own.cumulative_sequence_length[: sequences + 1],
            past_seqlens=own.past_seqlens[:sequences],
            block_table=own.block_table.reshape(-1)[: sequences * columns].reshape(sequences, columns),
            slot_mapping=own.slot_mapping[:tokens],
            logits_indices=own.logits_indices[:logits],
        )


def new_step_inputs(device: Device, tokens: int, sequences: int, columns: int, logits: int) -> StepInputs:
    """Arrays of these sizes, with undefined content."""
    return StepInputs(
        input_ids=device.empty(tokens, np.int64),
        position_ids=device.empty(tokens, np.int64),
        cumulative_sequence_length=device.empty(sequences + 1, np.int32),
        past_seqlens=device.empty(sequences, np.int32),
        block_table=device.empty((sequences, columns), np.int32),
        slot_mapping=device.empty(tokens, np.int32),
        logits_indices=device.empty(max(1, logits), np.int64),
    )


def _arrays(inputs: StepInputs) -> tuple[Any, ...]:
    """In the order of the kernel's parameters."""
    return (
        inputs.input_ids,
        inputs.position_ids,
        inputs.cumulative_sequence_length,
        inputs.past_seqlens,
        inputs.block_table,
        inputs.slot_mapping,
        inputs.logits_indices,
    )


def _width(step: PackedStep) -> int:
    return int(step.block_table.shape[1])


def _check(step: PackedStep, shape: PaddedShape, block_tokens: int, into: StepInputs | None) -> None:
    """Raises ValueError when the step does not fit, or padding sequences would not have one token each."""
    num_tokens, num_seqs = len(step.token_ids), len(step.num_past)
    spare = shape[1] - num_seqs
    if spare < 0 or shape[0] - num_tokens != spare:
        raise ValueError(
            f"{num_tokens} tokens of {num_seqs} sequences do not pad to {shape[0]} of {shape[1]}"
        )
    if num_tokens and int(step.positions.max()) >= shape[2] * block_tokens:
        raise ValueError(f"positions up to {step.positions.max()} do not fit {shape[2]} columns")
    if into is not None and (into.shape != shape or len(step.logit_indices) > shape[3]):
        raise ValueError(
            f"step inputs of {into.shape} cannot take {shape} and {len(step.logit_indices)} logits"
        )

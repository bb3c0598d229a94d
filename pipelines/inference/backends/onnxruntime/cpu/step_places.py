"""The nodes that all layers share: where the tokens of a step stand, and which keys each attends to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.inference.backends.onnxruntime.cpu.sinks import seen_with_sinks
from pipelines.inference.backends.onnxruntime.graph_writer import FARTHEST, GraphWriter
from pipelines.inference.backends.onnxruntime.step_input_names import (
    CUMULATIVE,
    FRAME_SLOTS,
    FRAME_TABLE,
    IMAGE_ENDS,
    NUM_FRAMES,
    PAST,
    SLOTS,
    TABLE,
)
from pipelines.onnx_format.decoder_format import INPUT_IDS, AttentionLayer

NO_WINDOW = -1
UNSEEN = np.finfo(np.float32).min
"""The score of a key that a query does not attend to."""


@dataclass(frozen=True)
class Places:
    """Positions of tokens, derived once from the step.

    B sequences of at most S new tokens are padded to [B, S]; K = W * block_tokens keys are gathered for each.
    """

    table: ir.Value  # int32[B, W]
    cells: ir.Value  # int64[T, 2], the (block, offset) to which each token is written
    padded: ir.Value  # int64[B, S], the packed token at that place; any token in padding
    packed: ir.Value  # int64[T], the place of each token in [B * S]
    gathered: ir.Value  # int64[2], (B, K)
    lengths: ir.Value  # int64[B], new tokens
    is_token: ir.Value  # bool[B, S], false in padding
    queries: ir.Value  # int64[B, S, 1], positions in their sequences
    ends: ir.Value  # int64[B, S, 1], the last positions that they attend to
    keys: ir.Value  # int64[K], positions


def find_places(writer: GraphWriter, inputs: dict[str, ir.Value], block_tokens: int) -> Places:
    op, ints, number = writer.op, writer.ints, writer.number
    starts, past = (op("Cast", inputs[name], to=ir.DataType.INT64) for name in (CUMULATIVE, PAST))
    begins, ends = op("Slice", starts, ints(0), ints(-1)), op("Slice", starts, ints(1), ints(FARTHEST))
    num_tokens = op("Size", inputs[INPUT_IDS])
    tokens = writer.arange(num_tokens)
    passed = op("GreaterOrEqual", op("Unsqueeze", tokens, ints(1)), op("Unsqueeze", ends, ints(0)))
    owner = op("ReduceSum", op("Cast", passed, to=ir.DataType.INT64), ints(1), keepdims=0)
    offsets = op("Sub", tokens, op("Gather", begins, owner))
    lengths = op("Sub", ends, begins)
    longest = op("ReduceMax", lengths, keepdims=0)
    steps = writer.arange(longest)
    standing = op("Add", op("Unsqueeze", begins, ints(1)), steps)
    num_keys = op("Mul", op("Shape", inputs[TABLE], start=1), ints(block_tokens))
    padded = op("Min", standing, op("Sub", num_tokens, number(1)))
    queries = op("Unsqueeze", op("Add", op("Unsqueeze", past, ints(1)), steps), ints(2))
    ends = queries
    if IMAGE_ENDS in inputs:
        ends = op("Unsqueeze", op("Gather", inputs[IMAGE_ENDS], padded), ints(2))
    return Places(
        table=inputs[TABLE],
        cells=_cells(writer, inputs[SLOTS], block_tokens),
        padded=padded,
        packed=op("Add", op("Mul", owner, longest), offsets),
        gathered=op("Concat", op("Shape", inputs[PAST]), num_keys, axis=0),
        lengths=lengths,
        is_token=op("Less", steps, op("Unsqueeze", lengths, ints(1))),
        queries=queries,
        ends=ends,
        keys=writer.arange(op("Squeeze", num_keys, ints(0))),
    )


@dataclass(frozen=True)
class FramePlaces:
    """The frames that sequences attend to: K' = W' * block_tokens keys are gathered for each."""

    table: ir.Value  # int32[B, W']
    cells: ir.Value  # int64[T + C, 2], the (block, offset) of each token, then of each new frame
    gathered: ir.Value  # int64[2], (B, K')
    mask: ir.Value  # bool[B, 1, S, K']


def find_frames(writer: GraphWriter, places: Places, block_tokens: int) -> FramePlaces:
    shapes: dict[str, list[str | int]] = {
        FRAME_TABLE: ["batch", "frame_columns"],
        NUM_FRAMES: ["batch"],
        FRAME_SLOTS: ["num_frames"],
    }
    inputs = {name: ir.val(name, ir.DataType.INT32, shape) for name, shape in shapes.items()}
    writer.graph.inputs.extend(inputs.values())
    op, ints = writer.op, writer.ints
    num_keys = op("Mul", op("Shape", inputs[FRAME_TABLE], start=1), ints(block_tokens))
    counts = op("Unsqueeze", op("Cast", inputs[NUM_FRAMES], to=ir.DataType.INT64), ints(1, 2))
    ends = op("Expand", counts, op("Shape", places.queries))
    seen = op("Less", writer.arange(op("Squeeze", num_keys, ints(0))), ends)
    return FramePlaces(
        table=inputs[FRAME_TABLE],
        cells=op("Concat", places.cells, _cells(writer, inputs[FRAME_SLOTS], block_tokens), axis=0),
        gathered=op("Concat", op("Shape", inputs[NUM_FRAMES]), num_keys, axis=0),
        mask=op("Unsqueeze", seen, ints(1)),
    )


def _cells(writer: GraphWriter, slots: ir.Value, block_tokens: int) -> ir.Value:
    """(block, offset) of each slot.  Slot -1 is block -1, which is the last block to ScatterND."""
    op = writer.op
    slots = op("Unsqueeze", op("Cast", slots, to=ir.DataType.INT64), writer.ints(1))
    offsets = op("Mod", slots, writer.number(block_tokens))  # of the divisor's sign, unlike Div
    blocks = op("Div", op("Sub", slots, offsets), writer.number(block_tokens))
    return op("Concat", blocks, offsets, axis=1)


class MaskKind(NamedTuple):
    """What decides which keys a layer sees; `sinks`: its mask has one more column."""

    window: int
    in_order: int
    sinks: bool = False


def masks_of(
    writer: GraphWriter, places: Places, layers: Iterable[AttentionLayer]
) -> dict[MaskKind, ir.Value]:
    """The masks of all layers, by their kinds."""
    kinds = {mask_kind(layer) for layer in layers}
    bare = {kind._replace(sinks=False) for kind in kinds}
    masks = {kind: _mask(writer, places, kind) for kind in sorted(bare)}
    with_sinks = [kind for kind in kinds if kind not in masks]
    return masks | {kind: seen_with_sinks(writer, masks[kind._replace(sinks=False)]) for kind in with_sinks}


def mask_kind(layer: AttentionLayer) -> MaskKind:
    return MaskKind(window_of(layer), layer.in_order, layer.has_sinks)


def window_of(layer: AttentionLayer) -> int:
    return layer.window if layer.window > 0 else NO_WINDOW


def _mask(writer: GraphWriter, places: Places, kind: MaskKind) -> ir.Value:
    """bool[B, 1, S, K]: a query attends to itself and the tokens before it, `window` tokens in all, and,
    unless in order, to those of its image behind it.
    """
    op = writer.op
    seen = op("LessOrEqual", places.keys, places.queries if kind.in_order else places.ends)
    if kind.window != NO_WINDOW:
        begin = op("Sub", places.queries, writer.number(kind.window))
        seen = op("And", seen, op("Greater", places.keys, begin))
    return op("Unsqueeze", seen, writer.ints(1))


def with_bias(writer: GraphWriter, places: Places, seen: ir.Value, bias: ir.Value | None) -> ir.Value:
    """float32[B, H, S, K]: what is added to the scores of seen keys, by their distance; others get nothing.

    `bias`: float32[H, D]; the last distance stands for all farther ones.
    """
    op, number = writer.op, writer.number
    assert bias is not None
    assert bias.shape is not None
    back = op("Sub", places.queries, places.keys)
    column = op("Clip", back, number(0), number(bias.shape.numpy()[1] - 1))
    added = op("Transpose", op("Gather", bias, column, axis=1), perm=[1, 0, 2, 3])
    return op("Where", seen, added, writer.constant("unseen", np.array(UNSEEN, np.float32)))


def with_slopes(writer: GraphWriter, places: Places, seen: ir.Value, slopes: ir.Value | None) -> ir.Value:
    """float32[B, H, S, K]: what ALiBi adds to the scores of seen keys; others get nothing.

    `slopes`: float32[H], how much a head takes for each token of distance.
    """
    op = writer.op
    back = op("Cast", op("Sub", places.keys, places.queries), to=ir.DataType.FLOAT)
    added = op("Mul", op("Unsqueeze", back, writer.ints(1)), op("Reshape", slopes, writer.ints(1, -1, 1, 1)))
    return op("Where", seen, added, writer.constant("unseen", np.array(UNSEEN, np.float32)))

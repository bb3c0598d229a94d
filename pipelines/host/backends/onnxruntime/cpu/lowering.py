"""Lowers a decoder in Braid's ONNX format to standard ONNX operators over a paged cache.

Paged attention becomes a ScatterND into the cache, a Gather by block table and an Attention over the gathered
keys and values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from pipelines.host.backends.onnx.block_sums import multiply_block_sums
from pipelines.host.backends.onnx.decoder_model import DecoderModel
from pipelines.host.backends.onnx.expert_linears import use_expert_linears
from pipelines.host.backends.onnx.recurrent import find_recurrent
from pipelines.host.backends.onnxruntime.cpu.kernel_linears import use_kernels
from pipelines.host.backends.onnxruntime.cpu.recurrent import Padding, lower_recurrent
from pipelines.host.backends.onnxruntime.cpu.rounded_rows import read_in_two_parts
from pipelines.host.backends.onnxruntime.cpu.sinks import Operands, seen_with_sinks, with_sinks
from pipelines.host.backends.onnxruntime.graph_writer import GraphWriter, add_batch_axis, declare_step_inputs
from pipelines.host.backends.onnxruntime.step_input_names import (
    CUMULATIVE,
    FRAME_SLOTS,
    FRAME_TABLE,
    IMAGE_ENDS,
    NUM_FRAMES,
    PAST,
    SLOTS,
    TABLE,
)
from pipelines.host.backends.onnxruntime.widened_e2m1 import widen_e2m1
from pipelines.onnx_format.decoder_format import (
    ATTENTION,
    CONTEXT_ATTENTION,
    DOMAIN,
    INPUT_IDS,
    SIDES,
    TOKEN_KINDS,
    AttentionLayer,
)

ELEMENT_TYPES = {"f32": ir.DataType.FLOAT, "f16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
HEADS_LAST = [0, 2, 1, 3]  # the permutation [1, heads, tokens, size] ↔ [1, tokens, heads, size]
NO_WINDOW = -1
UNSEEN = np.finfo(np.float32).min
"""The score of a key that a query does not attend to."""
FARTHEST = np.iinfo(np.int64).max  # the end of a Slice to the end


def lower_for_cpu(decoder: DecoderModel, block_tokens: int, with_kernels: bool = False) -> ir.Model:
    """A copy of the model over a paged cache; weights are shared, not copied.

    Inputs: input_ids, position_ids int64[T] · logits_indices int64[N] · cumulative_sequence_length int32[B +
    1] · past_seqlens int32[B] · block_table int32[B, W], all valid blocks · slot_mapping int32[T], block *
    block_tokens + offset, or -1 for a place in the last block · key_cache.{i}, value_cache.{i} [num_blocks,
    block_tokens, num_kv_heads, head_size].  Outputs: logits float32[N, vocab] · key_cache_out.{i},
    value_cache_out.{i}: the caches, written in place when bound to their inputs' memory.

    `with_kernels`: linear layers of few bits become nodes of Braid's own CPU kernels.

    A decoder that reads images has its own inputs for them, and image_ends int64[T] in the place of
    token_type_ids.

    A decoder with recurrent states also has state.{i} and state_out.{i}, of the B sequences (`recurrent.py`);
    one with frames has context_frames float32[1, C, frame_size] · frame_table int32[B, W'] ·
    num_frames int32[B] · frame_slots int32[C].

    Each sequence attends over W * block_tokens gathered keys, and its new tokens are padded to the largest
    number of new tokens; so sequences of unlike lengths are better computed in separate calls.
    """
    model = decoder.model.clone()
    graph = model.graph
    writer, inputs = GraphWriter(graph), declare_step_inputs(graph)
    first = graph[0]
    add_batch_axis(writer, inputs)
    if decoder.images.whole_images:
        _declare_ends(graph, inputs)
    places = _find_places(writer, inputs, block_tokens)
    masks = _masks(writer, places, decoder.layers)
    frames = _find_frames(writer, places, block_tokens) if decoder.encoder_hidden_size else None
    writer.insert_before(first)
    biased: dict[tuple[ir.Value | None, int], ir.Value] = {}
    context_nodes = {node.attributes["layer"].as_int(): node for node in _nodes(graph, CONTEXT_ATTENTION)}
    padding = Padding(places.padded, places.packed, places.lengths, places.is_token)
    lower_recurrent(writer, find_recurrent(graph), padding)
    for node in _nodes(graph, ATTENTION):
        layer = decoder.layers[node.attributes["layer"].as_int()]
        caches = _declare_caches(graph, layer, block_tokens, ELEMENT_TYPES[decoder.element_type])
        context = context_nodes.get(layer.layer)
        new, cells = _new_rows(writer, node), places.cells
        if context is not None:
            assert frames is not None
            both = zip(new, _new_rows(writer, context), strict=True)
            new, cells = [writer.op("Concat", *rows, axis=1) for rows in both], frames.cells
        stored = [_store(writer, rows, layer, cache, cells) for rows, cache in zip(new, caches, strict=True)]
        mask = masks[_window(layer), layer.has_sinks]
        if layer.has_bias:
            key = node.inputs[3], _window(layer)
            if key not in biased:  # T5 has one for all layers
                biased[key] = _biased(writer, places, mask, node.inputs[3])
            mask = biased[key]
        writer.replace(node, _attend(writer, node, layer, stored, places, places, mask))
        if context is not None:
            assert frames is not None
            writer.replace(context, _attend(writer, context, layer, stored, places, frames, frames.mask))
    _lower_linears(graph, decoder.element_type == "f32", with_kernels)
    graph.sort()  # the keys of frames come before the layer that stores them
    return model


def _lower_linears(graph: ir.Graph, is_float32: bool, with_kernels: bool) -> None:
    """Make linear layers, those of experts too, nodes that ONNX Runtime or the kernels compute."""
    use_expert_linears(graph)
    widen_e2m1(graph)
    graph.opset_imports.pop(DOMAIN, None)
    if is_float32 and with_kernels:
        use_kernels(graph)
    multiply_block_sums(graph)
    if is_float32:
        read_in_two_parts(graph)


def _nodes(graph: ir.Graph, op_type: str) -> list[ir.Node]:
    return [node for node in graph if (node.domain, node.op_type) == (DOMAIN, op_type)]


# The graph's borders


@dataclass(frozen=True)
class _Cache:
    """One side of a layer's cache: the input before the step and the output after it."""

    before: ir.Value
    after: ir.Value


def _declare_caches(
    graph: ir.Graph, layer: AttentionLayer, block_tokens: int, element_type: ir.DataType
) -> list[_Cache]:
    """Keys, then values."""
    shape: list[str | int] = ["num_blocks", block_tokens, layer.num_kv_heads, layer.head_size]
    names = ((f"{side}_cache.{layer.layer}", f"{side}_cache_out.{layer.layer}") for side in SIDES)
    caches = [_Cache(*(ir.val(name, element_type, shape) for name in pair)) for pair in names]
    graph.inputs.extend(cache.before for cache in caches)
    graph.outputs.extend(cache.after for cache in caches)
    return caches


def _declare_ends(graph: ir.Graph, inputs: dict[str, ir.Value]) -> None:
    """Replace the kinds of tokens by where their images end."""
    graph.inputs.remove(inputs[TOKEN_KINDS])
    inputs[IMAGE_ENDS] = ir.val(IMAGE_ENDS, ir.DataType.INT64, ["num_tokens"])
    graph.inputs.append(inputs[IMAGE_ENDS])


# What all layers share


@dataclass(frozen=True)
class _Places:
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


def _find_places(writer: GraphWriter, inputs: dict[str, ir.Value], block_tokens: int) -> _Places:
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
    return _Places(
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
class _FramePlaces:
    """The frames that sequences attend to: K' = W' * block_tokens keys are gathered for each."""

    table: ir.Value  # int32[B, W']
    cells: ir.Value  # int64[T + C, 2], the (block, offset) of each token, then of each new frame
    gathered: ir.Value  # int64[2], (B, K')
    mask: ir.Value  # bool[B, 1, S, K']


def _find_frames(writer: GraphWriter, places: _Places, block_tokens: int) -> _FramePlaces:
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
    return _FramePlaces(
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


def _masks(
    writer: GraphWriter, places: _Places, layers: Iterable[AttentionLayer]
) -> dict[tuple[int, bool], ir.Value]:
    """By the window of a layer, and whether it has sinks."""
    kinds = {(_window(layer), layer.has_sinks) for layer in layers}
    masks = {(window, False): _mask(writer, places, window) for window in {window for window, _ in kinds}}
    with_sinks = [kind for kind in kinds if kind not in masks]
    return masks | {kind: seen_with_sinks(writer, masks[kind[0], False]) for kind in with_sinks}


def _window(layer: AttentionLayer) -> int:
    return layer.window if layer.window > 0 else NO_WINDOW


def _mask(writer: GraphWriter, places: _Places, window: int) -> ir.Value:
    """bool[B, 1, S, K]: a query attends to itself and the tokens before it, `window` tokens in all, and to
    those of its image behind it.
    """
    op = writer.op
    seen = op("LessOrEqual", places.keys, places.ends)
    if window != NO_WINDOW:
        begin = op("Sub", places.queries, writer.number(window))
        seen = op("And", seen, op("Greater", places.keys, begin))
    return op("Unsqueeze", seen, writer.ints(1))


def _biased(writer: GraphWriter, places: _Places, seen: ir.Value, bias: ir.Value | None) -> ir.Value:
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


# One layer


def _new_rows(writer: GraphWriter, node: ir.Node) -> list[ir.Value]:
    """Keys and values of an attention node, tokens first."""
    return [writer.op("Transpose", value, perm=HEADS_LAST) for value in node.inputs[1:3]]


def _attend(
    writer: GraphWriter,
    node: ir.Node,
    layer: AttentionLayer,
    stored: list[ir.Value],
    places: _Places,
    seen: _Places | _FramePlaces,
    mask: ir.Value,
) -> ir.Value:
    """What the node gives, over the stored keys and values of the tokens or frames that it sees."""
    op, size = writer.op, layer.head_size
    heads, scale = node.attributes["num_heads"].as_int(), node.attributes["scale"].as_float()
    query = op("Transpose", node.inputs[0], perm=HEADS_LAST)
    operands = Operands(query, *(_gather(writer, cache, layer, seen) for cache in stored))
    if layer.has_sinks:
        operands = with_sinks(writer, node, layer, operands)
    width = heads * (size + layer.has_sinks)
    padded = op("Gather", op("Reshape", operands.query, writer.ints(-1, width)), places.padded)
    attended = op(
        "Attention",
        padded,
        operands.keys,
        operands.values,
        mask,
        q_num_heads=heads,
        kv_num_heads=layer.num_kv_heads,
        scale=scale,
        softcap=layer.softcap,
    )
    flat = op("Gather", op("Reshape", attended, writer.ints(-1, heads * size)), places.packed)
    return op("Transpose", op("Reshape", flat, writer.ints(1, -1, heads, size)), perm=HEADS_LAST)


def _store(
    writer: GraphWriter, rows: ir.Value, layer: AttentionLayer, cache: _Cache, cells: ir.Value
) -> ir.Value:
    """The cache with the new rows written to it.

    ScatterND is directly between the graph's input and its output, with a pair of indices for each row: only
    then ONNX Runtime writes in place.  A Reshape on either side makes it copy the whole cache each step, and
    so would a second one for the frames of the layer.
    """
    rows = writer.op("Reshape", rows, writer.ints(-1, layer.num_kv_heads, layer.head_size))
    return writer.op("ScatterND", cache.before, cells, rows, output=cache.after)


def _gather(
    writer: GraphWriter, cache: ir.Value, layer: AttentionLayer, seen: _Places | _FramePlaces
) -> ir.Value:
    """Each sequence's part of the cache: [B, K, num_kv_heads * head_size]."""
    shape = writer.op("Concat", seen.gathered, writer.ints(layer.num_kv_heads * layer.head_size), axis=0)
    return writer.op("Reshape", writer.op("Gather", cache, seen.table), shape)

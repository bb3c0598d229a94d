"""Lowers a decoder in Braid's ONNX format to standard ONNX operators over a paged cache.

Paged attention becomes a ScatterND into the cache, a Gather by block table and an Attention over the gathered
keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from pipelines.inference.backends.onnx.block_sums import multiply_block_sums
from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnx.expert_linears import use_expert_linears
from pipelines.inference.backends.onnx.recurrent import find_recurrent
from pipelines.inference.backends.onnxruntime.cpu.kernel_linears import use_kernels
from pipelines.inference.backends.onnxruntime.cpu.recurrent import Padding, lower_recurrent
from pipelines.inference.backends.onnxruntime.cpu.rounded_rows import read_in_two_parts
from pipelines.inference.backends.onnxruntime.cpu.sinks import Operands, with_sinks
from pipelines.inference.backends.onnxruntime.cpu.step_places import (
    FramePlaces,
    Places,
    find_frames,
    find_places,
    mask_kind,
    masks_of,
    window_of,
    with_bias,
    with_slopes,
)
from pipelines.inference.backends.onnxruntime.graph_writer import (
    GraphWriter,
    add_batch_axis,
    declare_step_inputs,
)
from pipelines.inference.backends.onnxruntime.step_input_names import (
    IMAGE_ENDS,
)
from pipelines.inference.backends.onnxruntime.widened_e2m1 import widen_e2m1
from pipelines.onnx_format.decoder_format import (
    ATTENTION,
    BIAS,
    CONTEXT_ATTENTION,
    DOMAIN,
    SIDES,
    SLOPES,
    TOKEN_KINDS,
    AttentionLayer,
)

ELEMENT_TYPES = {"f32": ir.DataType.FLOAT, "f16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
HEADS_LAST = [0, 2, 1, 3]  # the permutation [1, heads, tokens, size] ↔ [1, tokens, heads, size]


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
    places = find_places(writer, inputs, block_tokens)
    masks = masks_of(writer, places, decoder.layers)
    frames = find_frames(writer, places, block_tokens) if decoder.encoder_hidden_size else None
    writer.insert_before(first)
    added: dict[tuple[ir.Value | None, int], ir.Value] = {}
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
        mask = masks[mask_kind(layer)]
        if layer.has_bias or layer.has_slopes:
            mask = _with_added(writer, places, mask, layer, node, added)
        writer.replace(node, _attend(writer, node, layer, stored, places, places, mask))
        if context is not None:
            assert frames is not None
            writer.replace(context, _attend(writer, context, layer, stored, places, frames, frames.mask))
    _lower_linears(graph, decoder.element_type == "f32", with_kernels)
    graph.sort()  # the keys of frames come before the layer that stores them
    return model


def _with_added(
    writer: GraphWriter,
    places: Places,
    mask: ir.Value,
    layer: AttentionLayer,
    node: ir.Node,
    added: dict[tuple[ir.Value | None, int], ir.Value],
) -> ir.Value:
    """The mask with what the bias or the slopes of a layer add: one for all layers with the same, as T5's."""
    place, add = (BIAS, with_bias) if layer.has_bias else (SLOPES, with_slopes)
    key = node.inputs[place], window_of(layer)
    if key not in added:
        added[key] = add(writer, places, mask, node.inputs[place])
    return added[key]


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


# One layer


def _new_rows(writer: GraphWriter, node: ir.Node) -> list[ir.Value]:
    """Keys and values of an attention node, tokens first."""
    return [writer.op("Transpose", value, perm=HEADS_LAST) for value in node.inputs[1:3]]


def _attend(
    writer: GraphWriter,
    node: ir.Node,
    layer: AttentionLayer,
    stored: list[ir.Value],
    places: Places,
    seen: Places | FramePlaces,
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
    writer: GraphWriter, cache: ir.Value, layer: AttentionLayer, seen: Places | FramePlaces
) -> ir.Value:
    """Each sequence's part of the cache: [B, K, num_kv_heads * head_size]."""
    shape = writer.op("Concat", seen.gathered, writer.ints(layer.num_kv_heads * layer.head_size), axis=0)
    return writer.op("Reshape", writer.op("Gather", cache, seen.table), shape)

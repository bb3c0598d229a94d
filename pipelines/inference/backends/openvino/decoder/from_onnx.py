"""Converts a decoder in Braid's ONNX format to a paged OpenVINO model, as `paged_attention.py` does for
exports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
import openvino as ov

from pipelines.adapters.weights import LinearShape
from pipelines.inference.backends.onnx.block_sums import multiply_block_sums
from pipelines.inference.backends.onnx.decoder_model import DecoderModel, ReadsImages
from pipelines.inference.backends.onnx.expert_linears import use_expert_linears
from pipelines.inference.backends.onnx.head import nodes_from_head
from pipelines.inference.backends.onnx.lora_embeddings import add_lora_embeddings
from pipelines.inference.backends.onnx.lora_linears import add_lora
from pipelines.inference.backends.onnx.read_decoder import ELEMENT_TYPES, read_decoder
from pipelines.inference.backends.onnx.routed_output import add_routed_output
from pipelines.inference.backends.openvino.decoder.attention_nodes import (
    HAS_KINDS,
    HAS_SLOPES,
    STEP_SHAPES,
    convert_attention,
    convert_context_attention,
)
from pipelines.inference.backends.openvino.decoder.expert_layers import ExpertLayers
from pipelines.inference.backends.openvino.decoder.gguf_weights import gguf_conversions
from pipelines.inference.backends.openvino.decoder.kernel_experts import KERNEL_EXPERTS, KernelExperts
from pipelines.inference.backends.openvino.decoder.onnx_weights import (
    BLOCK_MATMUL,
    DetachedWeights,
    convert_block_matmul,
    detach_weights,
    rewrite_compressed_weights,
)
from pipelines.inference.backends.openvino.decoder.recurrent_nodes import (
    CONVERSIONS as RECURRENT_CONVERSIONS,
)
from pipelines.inference.backends.openvino.decoder.recurrent_nodes import (
    compute_states_in_float32,
    declare_states,
)
from pipelines.inference.backends.openvino.decoder.token_order import read_in_order, write_in_order
from pipelines.inference.backends.openvino.model.experts_operator import keep_types
from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.inference.backends.openvino.paging.cross_attention_cache import (
    FRAMES,
    CrossAttentionModel,
    split_cross_attention,
)
from pipelines.inference.backends.openvino.paging.paged_attention import CACHE_INPUT, last_line
from pipelines.inference.contracts.device_errors import ModelError, Unsupported
from pipelines.inference.contracts.routed_experts import RoutedShape
from pipelines.onnx_format.decoder_format import (
    ATTENTION,
    CONTEXT_ATTENTION,
    DOMAIN,
    IN_ORDER,
    INPUT_IDS,
    LOGITS_INDICES,
    POSITION_IDS,
    SIDES,
    SINKS,
    SLOPES,
    TOKEN_KINDS,
    AttentionLayer,
)

Conversion = Callable[[Any], list[ov.Output]]
"""What makes OpenVINO's nodes of one of ONNX."""
NO_CONVERSIONS: Mapping[str, Conversion] = MappingProxyType({})
ONNX_TYPES = {name: dtype for dtype, name in ELEMENT_TYPES.items()}
LEAST_SUMMED = 1 << 20
"""Weights of a linear layer from which on int8 sums save more time than the sums of blocks take."""


class PagedOnnx(NamedTuple):
    """A paged model and its weights, which must outlive everything that is compiled from it."""

    model: ov.Model
    weights: DetachedWeights
    max_context: int
    encoder_hidden_size: int = 0
    max_frames: int = 0
    frames: CrossAttentionModel | None = None
    linears: Mapping[str, LinearShape] = MappingProxyType({})
    experts: ExpertLayers = ExpertLayers()
    routed: RoutedShape | None = None
    images: ReadsImages = ReadsImages()


def read_onnx(
    path: Path,
    targets: frozenset[str] | None = None,
    int8_sums: bool = False,
    kernels: LinearKernels | None = None,
    least_rows: int = 1,
    gives_routed: bool = False,
) -> PagedOnnx:
    """Read the model.onnx at `path`; weights stay in their files, which are mapped.  Adapters may change what
    `targets` name.  `int8_sums`: for a device that rounds what meets compressed weights to int8.  `kernels`
    compute linear layers whose weights are in a GGUF file, and routed experts; where they do not, an expert
    that is chosen computes `least_rows`, 1 or 2.

    Inputs and output are those of `read_paged` after `gather_logits`; with `gives_routed` a second output has
    the experts that tokens choose.  Raises `ModelError`.
    """
    decoder = read_decoder(path, from_gguf=kernels is not None)
    routed = add_routed_output(decoder.model.graph) if gives_routed else None
    return page_decoder(decoder, targets, int8_sums, kernels, least_rows)._replace(routed=routed)


def page_decoder(
    decoder: DecoderModel,
    targets: frozenset[str] | None = None,
    int8_sums: bool = False,
    kernels: LinearKernels | None = None,
    least_rows: int = 1,
) -> PagedOnnx:
    """Convert a decoder that was read; `decoder.model` is changed."""
    _refuse_scores(decoder)
    linears = {}
    if targets is not None:
        graph = decoder.model.graph
        linears = add_lora(graph, targets) | add_lora_embeddings(graph, targets)
    _declare_inputs(decoder)
    experts, conversions = ExpertLayers(), {}
    if kernels is not None:
        kernel_experts = KernelExperts(kernels)
        experts = ExpertLayers(by_kernels=kernel_experts.use(decoder.model.graph))
        conversions[KERNEL_EXPERTS] = kernel_experts.convert
        conversions |= gguf_conversions(decoder.folder, kernels)
    num_layers, num_linears = use_expert_linears(decoder.model.graph, least_rows)
    experts = replace(experts, by_linears=num_layers, num_linears=num_linears)
    if int8_sums:  # which OpenVINO does not use where zero points are floats
        multiply_block_sums(decoder.model.graph, LEAST_SUMMED, nodes_from_head(decoder.model.graph))
    rewrite_compressed_weights(decoder.model.graph)
    weights = detach_weights(decoder.model.graph, decoder.folder)
    model = _convert(ir.to_proto(decoder.model).SerializeToString(), conversions)
    weights.attach(model)
    keep_types(model)
    compute_states_in_float32(model)
    _skip_transposes(model)
    _clear_names(model)
    attentions = _attentions_to_frames(model)
    frames = split_cross_attention(model, attentions) if attentions else None
    for parameter in model.get_parameters():
        if CACHE_INPUT.fullmatch(parameter.output(0).any_name):
            parameter.set_element_type(ov.Type.dynamic)  # the device decides, as for the transformation's
            parameter.set_partial_shape(ov.PartialShape.dynamic(4))
    model.validate_nodes_and_infer_types()
    sizes = decoder.max_context, decoder.encoder_hidden_size, decoder.max_frames
    return PagedOnnx(model, weights, *sizes, frames, linears, experts, images=decoder.images)


def _refuse_scores(decoder: DecoderModel) -> None:
    """What OpenVINO's attention cannot do with its scores."""
    kinds = {
        "caps scores (softcap)": any(layer.softcap for layer in decoder.layers),
        "adds a bias by distance to scores, as T5's": any(layer.has_bias for layer in decoder.layers),
        "adds a bias by distance to scores (ALiBi) within a window": any(
            layer.has_slopes and layer.window > 0 for layer in decoder.layers
        ),
    }
    for kind, has in kinds.items():
        if has:
            raise Unsupported(
                f"{decoder.folder}: its attention {kind}, which OpenVINO's cannot; "
                "write `engine: onnxruntime`."
            )


# The ONNX graph


def _declare_inputs(decoder: DecoderModel) -> None:
    """Make step and cache inputs of the graph and of its attention nodes; ids and positions lose a rank."""
    graph = decoder.model.graph
    step = {ATTENTION: _declare_step(graph, "")}
    if decoder.encoder_hidden_size:
        step[CONTEXT_ATTENTION] = _declare_step(graph, FRAMES)
    kinds = [value for value in graph.inputs if value.name == TOKEN_KINDS]
    caches = [_declare_cache(graph, layer, ONNX_TYPES[decoder.element_type]) for layer in decoder.layers]
    for node in [node for node in graph if node.domain == DOMAIN and node.op_type in step]:
        by_head = [value for value in node.inputs[SINKS:] if value is not None]
        slopes = len(node.inputs) > SLOPES and node.inputs[SLOPES] is not None
        seen = [] if node.attributes.get_int(IN_ORDER, 0) else kinds
        node.resize_inputs(len(SIDES) + 1)
        more: list[ir.Value | None] = [
            *caches[node.attributes["layer"].as_int()],
            *step[node.op_type],
            *seen,
            *by_head,
        ]
        node.attributes[HAS_KINDS] = ir.AttrInt64(HAS_KINDS, len(seen))
        node.attributes[HAS_SLOPES] = ir.AttrInt64(HAS_SLOPES, int(slopes))
        _extend_inputs(graph, node, more)
    for node, state in declare_states(graph):
        _extend_inputs(graph, node, state)
    for value in list(graph.inputs):
        if value.name in (INPUT_IDS, POSITION_IDS):
            _drop_batch(graph, value)
        elif value.name == LOGITS_INDICES:
            value.name = LOGITS_INPUT


def _declare_step(graph: ir.Graph, prefix: str) -> list[ir.Value]:
    inputs = [
        ir.val(prefix + name, ir.DataType.INT32, [f"{prefix}{size}" for size in shape])
        for name, shape in STEP_SHAPES.items()
    ]
    graph.inputs.extend(inputs)
    return inputs


def _declare_cache(graph: ir.Graph, layer: AttentionLayer, dtype: ir.DataType) -> list[ir.Value]:
    """Inputs for the layer's keys and values, of any shape with four axes."""
    cache = [ir.val(f"{side}_cache.{layer.layer}", dtype, [None, None, None, None]) for side in SIDES]
    graph.inputs.extend(cache)
    return cache


def _extend_inputs(graph: ir.Graph, node: ir.Node, more: Sequence[ir.Value | None]) -> None:
    inputs, attributes = [*node.inputs, *more], dict(node.attributes)
    longer = ir.node(node.op_type, inputs, attributes, domain=DOMAIN, name=node.name, num_outputs=1)
    old, new = node.outputs, longer.outputs
    new[0].name, new[0].type, new[0].shape = old[0].name, old[0].type, old[0].shape
    ir.convenience.replace_nodes_and_values(graph, node, [node], [longer], old, new)


def _drop_batch(graph: ir.Graph, row: ir.Value) -> None:
    """Declare `row` as [num_tokens]; an Unsqueeze makes [1, num_tokens] of it for its readers."""
    axis = ir.val(f"{row.name}.axis", const_value=ir.tensor(np.zeros(1, np.int64), name=f"{row.name}.axis"))
    graph.register_initializer(axis)
    widened = ir.node("Unsqueeze", [row, axis], name=f"{row.name}.row")
    out = widened.outputs[0]
    out.name, out.type, out.shape = f"{row.name}.row", row.type, row.shape
    for user, index in list(row.uses()):
        if user is not widened:
            user.replace_input_with(index, out)
    row.shape = ir.Shape(["num_tokens"])
    graph.insert_before(graph[0], widened)


# OpenVINO's side


def _convert(graph: bytes, more_conversions: Mapping[str, Conversion] = NO_CONVERSIONS) -> ov.Model:
    from openvino.frontend.onnx import ConversionExtension

    core = ov.Core()
    conversions = {
        ATTENTION: convert_attention,
        CONTEXT_ATTENTION: convert_context_attention,
        BLOCK_MATMUL: convert_block_matmul,
        **RECURRENT_CONVERSIONS,
        **more_conversions,
    }
    refusals: list[ModelError] = []
    for operator, conversion in conversions.items():
        core.add_extension(ConversionExtension(operator, DOMAIN, partial(_converted, conversion, refusals)))
    try:
        return core.read_model(graph)
    except RuntimeError as error:
        if refusals:
            raise refusals[0] from error
        raise Unsupported(
            f"OpenVINO {ov.__version__.split('-')[0]} cannot take this graph: {_error_summary(error)}. "
            "`engine: onnxruntime` may."
        ) from error


def _converted(conversion: Conversion, refusals: list[ModelError], node: Any) -> list[ov.Output]:
    """What a conversion makes of a node; OpenVINO loses the reason of one that raises, so it is noted."""
    try:
        return conversion(node)
    except ModelError as error:
        refusals.append(error)
        raise


def _skip_transposes(model: ov.Model) -> None:
    """Let the attention nodes read and write rows of tokens without transposes."""
    angles: dict[str, ov.Output] = {}
    for attention in [node for node in model.get_ops() if node.get_type_name() == "PagedAttentionExtension"]:
        for number in range(3):
            read_in_order(_unconverted(attention.input_value(number)).get_node(), angles)
        for port in attention.output(0).get_target_inputs():
            write_in_order(*_rows_and_heads(port.get_node()))


def _unconverted(value: ov.Output) -> ov.Output:
    node = value.get_node()
    return node.input_value(0) if node.get_type_name() == "Convert" else value


def _rows_and_heads(converted: ov.Node) -> tuple[ov.Output, ov.Output]:
    """[tokens, heads * size] and [1, heads, tokens, size] as `_split_heads` makes them of an attention."""
    (split,) = (port.get_node() for port in converted.output(0).get_target_inputs())
    (transposed,) = (port.get_node() for port in split.output(0).get_target_inputs())
    return converted.output(0), transposed.output(0)


def _clear_names(model: ov.Model) -> None:
    """Remove the names of all values but parameters.

    Where a device removes a node (a Squeeze of an Unsqueeze), the node's input inherits its names: an input
    would be found under another name.
    """
    for node in model.get_ordered_ops():
        if node.get_type_name() != "Parameter":
            for output in node.outputs():
                output.set_names(set())


def _attentions_to_frames(model: ov.Model) -> list[ov.Node]:
    reader = f"{FRAMES}past_lens"
    step = next((each for each in model.get_parameters() if each.output(0).any_name == reader), None)
    return [] if step is None else [each.get_node() for each in step.output(0).get_target_inputs()]


def _error_summary(error: Exception) -> str:
    """The last line that starts with dashes, which names operators; the lines after it are general advice."""
    lines = [line for line in str(error).splitlines() if line.startswith("-- ")]
    return lines[-1].removeprefix("-- ").rstrip(".:") if lines else last_line(error).rstrip(".")

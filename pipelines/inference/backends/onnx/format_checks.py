"""Checks that a graph follows Braid's ONNX decoder format, and reads its layers and vocabulary size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from pipelines.inference.backends.onnx.decoder_model import ReadsImages
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import (
    ATTENTION,
    ATTRIBUTES,
    BIAS,
    CALIBRATION,
    CONTEXT_ATTENTION,
    CONTEXT_ATTRIBUTES,
    CONTEXT_FRAMES,
    DOMAIN,
    GIVEN_EMBEDDINGS,
    GIVEN_PLACES,
    GIVEN_POSITIONS,
    IN_ORDER,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
    OPSET,
    POSITION_IDS,
    SINKS,
    SLOPES,
    TOKEN_KINDS,
    AttentionLayer,
)

INPUTS = {INPUT_IDS, POSITION_IDS, LOGITS_INDICES}
OF_IMAGES = {
    GIVEN_EMBEDDINGS: ir.DataType.FLOAT,
    GIVEN_PLACES: ir.DataType.INT64,
    GIVEN_POSITIONS: ir.DataType.INT64,
    TOKEN_KINDS: ir.DataType.INT32,
}
"""The further inputs of a decoder that reads images, and their types."""


def check_inputs(graph: ir.Graph) -> None:
    """Raise `ModelError` unless inputs, output and operator set are those of the format."""
    inputs = {str(value.name): value for value in graph.inputs}
    frames = inputs.pop(CONTEXT_FRAMES, None)
    if frames is not None and frames.dtype != ir.DataType.FLOAT:
        raise ModelError(f"{CONTEXT_FRAMES} is {frames.dtype}, not FLOAT.")
    _check_images({name: inputs.pop(name) for name in OF_IMAGES if name in inputs})
    if set(inputs) != INPUTS:
        raise ModelError(
            f"reads {', '.join(sorted(inputs))}; a decoder in Braid's format reads "
            f"{', '.join(sorted(INPUTS))}."
        )
    for name, value in inputs.items():
        if value.dtype != ir.DataType.INT64:
            raise ModelError(f"{name} is {value.dtype}, not INT64.")
    if [value.name for value in graph.outputs] != [LOGITS] or graph.outputs[0].dtype != ir.DataType.FLOAT:
        given_out = ", ".join(f"{value.name} {value.dtype}" for value in graph.outputs)
        raise ModelError(f"gives {given_out or 'nothing'}; a decoder in Braid's format gives {LOGITS} FLOAT.")
    if graph.opset_imports.get("", 0) < OPSET:
        raise ModelError(
            f"is of ONNX opset {graph.opset_imports.get('')}; Braid's format needs {OPSET} and newer."
        )


def _check_images(inputs: Mapping[str, ir.Value]) -> None:
    """Raise `ModelError` unless there are none, or those of the format."""
    wrong = [name for name, value in inputs.items() if value.dtype != OF_IMAGES[name]]
    if wrong or (inputs and not {GIVEN_EMBEDDINGS, GIVEN_PLACES} <= inputs.keys()):
        raise ModelError(f"reads {', '.join(wrong or inputs)} of images, not as in Braid's format.")


def read_images(graph: ir.Graph) -> ReadsImages:
    """How a decoder reads images.  Raises `ModelError`."""
    inputs = {str(value.name): value for value in graph.inputs}
    if GIVEN_EMBEDDINGS not in inputs:
        return ReadsImages()
    axes = _fixed_axis(inputs[GIVEN_POSITIONS], 0) if GIVEN_POSITIONS in inputs else 1
    return ReadsImages(_fixed_axis(inputs[GIVEN_EMBEDDINGS], 1), axes, TOKEN_KINDS in inputs)


def _fixed_axis(value: ir.Value, axis: int) -> int:
    shape = value.shape
    if shape is None or len(shape) != 2 or not isinstance(size := shape[axis], int):
        raise ModelError(f"its input {value.name} is of shape {shape}.")
    return size


def read_layers(graph: ir.Graph) -> list[AttentionLayer]:
    """The attributes of the attention nodes, in order.  Raises `ModelError`."""
    nodes = [node for node in graph if (node.domain, node.op_type) == (DOMAIN, ATTENTION)]
    layers = [_read_layer(node) for node in nodes]
    numbers = [layer.layer for layer in layers]
    if numbers != list(range(len(layers))):
        raise ModelError(f"its layers are numbered {numbers}, not from 0 on in order.")
    return layers


def read_encoder_hidden_size(graph: ir.Graph, layers: list[AttentionLayer]) -> int:
    """The length of the frames that a decoder attends to, 0 without them.  Raises `ModelError`.

    `layers` are those of its own tokens, whose caches the frames share.
    """
    nodes = [node for node in graph if (node.domain, node.op_type) == (DOMAIN, CONTEXT_ATTENTION)]
    frames = next((value for value in graph.inputs if value.name == CONTEXT_FRAMES), None)
    if not nodes and frames is None:
        return 0
    shape = None if frames is None else frames.shape
    if not nodes or shape is None or len(shape) != 3 or not isinstance(shape[2], int):
        raise ModelError(f"has {len(nodes)} {DOMAIN}::{CONTEXT_ATTENTION} and {CONTEXT_FRAMES} {shape}.")
    context_layers = [_read_context_layer(node) for node in nodes]
    numbers = [layer.layer for layer in context_layers]
    if numbers != sorted(set(numbers)) or numbers[-1] >= len(layers):
        raise ModelError(f"its attentions to frames are of the layers {numbers} of {len(layers)}.")
    for layer in context_layers:
        own = layers[layer.layer]
        if (layer.num_kv_heads, layer.head_size) != (own.num_kv_heads, own.head_size):
            raise ModelError(f"layer {layer.layer} has other heads for frames than for tokens.")
    return shape[2]


def _read_context_layer(node: ir.Node) -> AttentionLayer:
    return _read_attributes(node, CONTEXT_ATTRIBUTES, frozenset(), {"window": -1, "softcap": 0.0})


def _check_bias(node: ir.Node, layer: AttentionLayer) -> None:
    """Raise `ModelError` unless the bias of scores is a row of numbers for each head."""
    bias = node.inputs[BIAS]
    shape = None if bias is None or bias.shape is None else tuple(bias.shape)
    is_table = shape is not None and len(shape) == 2 and shape[0] == layer.num_heads and shape[1] != 0
    if not is_table or bias is None or not bias.is_initializer() or bias.dtype != ir.DataType.FLOAT:
        raise ModelError(
            f"layer {layer.layer} has a bias of {bias}, not FLOAT[{layer.num_heads}, distances]."
        )


def _check_by_head(node: ir.Node, layer: AttentionLayer, place: int, name: str) -> None:
    """Raise `ModelError` unless there is a number for each head, as a constant of the graph."""
    numbers = node.inputs[place]
    if numbers is None or not numbers.is_initializer() or numbers.shape != ir.Shape([layer.num_heads]):
        raise ModelError(f"layer {layer.layer} has {name} of {numbers}, not [{layer.num_heads}].")


def _read_layer(node: ir.Node) -> AttentionLayer:
    has_bias, has_sinks, has_slopes = (
        len(node.inputs) > place and node.inputs[place] is not None for place in (BIAS, SINKS, SLOPES)
    )
    others = {"has_bias": has_bias, "has_sinks": has_sinks, "has_slopes": has_slopes}
    layer = _read_attributes(
        node, ATTRIBUTES, frozenset({*CALIBRATION, IN_ORDER}), others, num_inputs=(3, 4, 5, 6)
    )
    if layer.has_bias:
        _check_bias(node, layer)
    if layer.has_sinks:
        _check_by_head(node, layer, SINKS, "sinks")
    if layer.has_slopes:
        _check_by_head(node, layer, SLOPES, "slopes")
    if has_bias + has_sinks + has_slopes + bool(layer.softcap) > 1:
        raise ModelError(f"layer {layer.layer} has more than one of a bias, sinks, slopes and a cap.")
    return layer


def _read_attributes(
    node: ir.Node,
    names: Sequence[str],
    optional: frozenset[str],
    others: Mapping[str, Any],
    num_inputs: Sequence[int] = (3,),
) -> AttentionLayer:
    missing = [name for name in names if name not in node.attributes]
    unknown = set(node.attributes) - {*names, *optional}
    if missing or unknown or len(node.inputs) not in num_inputs:
        raise ModelError(
            f"{DOMAIN}::{node.op_type} {node.name} has {len(node.inputs)} of 3 inputs, lacks "
            f"{missing or 'no attribute'} and has {sorted(unknown) or 'none'} that this version of Braid "
            "does not support."
        )
    values = {name: attribute.value for name, attribute in node.attributes.items()}
    layer = AttentionLayer(**values, **others)
    _check_layer(layer)
    return layer


def _check_layer(layer: AttentionLayer) -> None:
    heads, kv_heads = layer.num_heads, layer.num_kv_heads
    wrong = {
        f"{heads} query heads over {kv_heads} key-value heads": kv_heads < 1
        or heads < 1
        or heads % max(kv_heads, 1),
        f"heads of {layer.head_size} numbers": layer.head_size < 1,
        f"scale {layer.scale}": not (math.isfinite(layer.scale) and layer.scale > 0),
        f"window {layer.window}": layer.window != -1 and layer.window < 1,
        f"softcap {layer.softcap}": not (math.isfinite(layer.softcap) and layer.softcap >= 0),
        "one of key_absmax and value_absmax": (layer.key_absmax is None) != (layer.value_absmax is None),
    }
    faults = [what for what, is_wrong in wrong.items() if is_wrong]
    if faults:
        raise ModelError(f"layer {layer.layer} has {', '.join(faults)}.")


def find_vocab_size(graph: ir.Graph, fields: Mapping[str, Any]) -> int:
    """The number of tokens: from the shape of the logits, else from config.json.  Raises `ModelError`."""
    shape = graph.outputs[0].shape
    if shape is not None and len(shape) == 2 and isinstance(shape[1], int):
        return shape[1]
    if isinstance(size := fields.get("vocab_size"), int):
        return size
    raise ModelError("neither its logits nor config.json give the vocabulary size.")

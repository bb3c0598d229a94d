"""What a decoder in the form computes for one whole prompt, by a second and simpler way than the engines'."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from pipelines.onnx_format.decoder_format import ATTENTION, DOMAIN, SINKS, SLOPES, AttentionLayer


def open_whole(decoder: DecoderModel, num_tokens: int) -> ort.InferenceSession:
    """A session for prompts of exactly `num_tokens`: each layer is one Attention with a constant mask."""
    model = decoder.model.clone()
    graph = model.graph
    for node in [node for node in graph if (node.domain, node.op_type) == (DOMAIN, ATTENTION)]:
        layer = decoder.layers[node.attributes["layer"].as_int()]
        mask = ir.node("Constant", [], {"value": ir.tensor(_mask(layer, node, num_tokens))})
        attributes = {"scale": layer.scale, "softcap": layer.softcap}
        operands, more = list(node.inputs[:3]), list[ir.Node]()
        if layer.has_sinks:
            shape = (1, layer.num_kv_heads, 1, layer.head_size)
            nothing = ir.node("Constant", [], {"value": ir.tensor(np.zeros(shape, np.float32))})
            longer = [ir.node("Concat", [operand, *nothing.outputs], {"axis": 2}) for operand in operands[1:]]
            operands, more = [operands[0], *(node.outputs[0] for node in longer)], [nothing, *longer]
        attend = ir.node("Attention", [*operands, mask.outputs[0]], attributes)
        graph.insert_before(node, [mask, *more, attend])
        node.outputs[0].replace_all_uses_with(attend.outputs[0])
        graph.remove(node, safe=True)
    graph.opset_imports.pop(DOMAIN, None)
    return open_session(ir.to_proto(model).SerializeToString(), decoder.folder, [CPU], 1, {})


def _mask(layer: AttentionLayer, node: ir.Node, num_tokens: int) -> NDArray[Any]:
    """What a query sees, or the scores added to it, where the last key stands for sinks."""
    seen = visible(layer, num_tokens)
    if layer.has_slopes:
        behind = np.arange(num_tokens)[:, None] - np.arange(num_tokens)
        slopes = node.inputs[SLOPES].const_value.numpy()[:, None, None]
        return np.where(seen, -slopes * behind, -np.inf).astype(np.float32)[None]
    if not layer.has_sinks:
        return seen
    sinks = node.inputs[SINKS].const_value.numpy()
    added = np.where(seen, 0, -np.inf)[None].repeat(layer.num_heads, 0)
    column = np.broadcast_to(sinks[:, None, None], (layer.num_heads, num_tokens, 1))
    return np.concatenate([added, column], -1).astype(np.float32)


def visible(layer: AttentionLayer, num_tokens: int) -> NDArray[np.bool_]:
    """Which keys (columns) a query (row) sees: itself and those before it, `window` in all."""
    behind = np.arange(num_tokens)[:, None] - np.arange(num_tokens)[None]
    return (behind >= 0) & ((layer.window == -1) | (behind < layer.window))


def logits_of(decoder: DecoderModel, prompt: list[int], rows: list[int] | None = None) -> NDArray[np.float32]:
    """float32[len(rows), vocab], of all rows when `rows` is None."""
    wanted = list(range(len(prompt))) if rows is None else rows
    feed = {
        "input_ids": np.array([prompt], np.int64),
        "position_ids": np.arange(len(prompt), dtype=np.int64)[None],
        "logits_indices": np.array(wanted, np.int64),
    }
    (logits,) = open_whole(decoder, len(prompt)).run(["logits"], feed)
    return logits

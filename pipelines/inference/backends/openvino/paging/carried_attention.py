"""What paging drops of a decoder's attention is carried over to its paged nodes, or the model is refused.

OpenVINO's transformation reads scale and some forms of masks; it drops the others without an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.declared_attention import (
    CHUNK_SIZE,
    check_num_layers,
    read_attention_windows,
)
from pipelines.inference.backends.openvino.paging.attention_masks import SDPA, AttentionMask
from pipelines.inference.backends.openvino.paging.positions import counts_positions
from pipelines.inference.contracts.device_errors import ModelError

PAGED = "PagedAttentionExtension"
WINDOW_INPUT, SLOPES_INPUT, SINKS_INPUT = 10, 11, 20
"""The places of these inputs of a paged node."""
SDPA_SINK_INPUT = 5
SOFTCAP = "attn_logit_softcapping"
AS_ONNX = "Export it with `braid export --format onnx`"


def check_declared(fields: Mapping[str, Any]) -> None:
    """Raise `ModelError` where config.json declares what no OpenVINO decoder computes."""
    if cap := fields.get(SOFTCAP):
        raise ModelError(
            f"its config.json caps attention scores ({SOFTCAP} {cap}), which an OpenVINO decoder leaves out. "
            f"{AS_ONNX} and run it with `engine: onnxruntime`."
        )


def count_sinks(model: ov.Model) -> int:
    """Attentions of an exported decoder that have sinks."""
    attentions = [node for node in model.get_ops() if node.get_type_name() == SDPA]
    return sum(node.get_input_size() > SDPA_SINK_INPUT for node in attentions)


def carry_over(model: ov.Model, masks: Sequence[AttentionMask], fields: Mapping[str, Any]) -> None:
    """Give every paged node the window and the slopes of its mask, else the window of config.json.

    Raises `ModelError` for layers that were not paged.
    """
    nodes = [node for node in model.get_ordered_ops() if node.get_type_name() == PAGED]
    if len(nodes) != len(masks):
        raise ModelError(
            f"OpenVINO has paged {len(nodes)} of its {len(masks)} layers of attention. {AS_ONNX}."
        )
    check_num_layers(len(nodes), fields)
    for node, mask, window in zip(nodes, masks, read_attention_windows(fields, len(nodes)), strict=True):
        if mask.chunked and not fields.get(CHUNK_SIZE):
            raise ModelError(f"its attention sees tokens in chunks, and config.json has no {CHUNK_SIZE}.")
        limit = window if mask.window == -1 else mask.window
        _set(node, WINDOW_INPUT, np.array(max(limit, 0), np.int32))
        if mask.slopes is not None:
            _set(node, SLOPES_INPUT, mask.slopes)


def check_paged(model: ov.Model, num_sinks: int) -> None:
    """Raise `ModelError` for what the transformation has left of the model's own cache and positions."""
    left = sorted(node.get_variable_id() for node in model.get_ops() if node.get_type_name() == "ReadValue")
    if left:
        raise ModelError(
            f"OpenVINO cannot page {len(left)} of its states ({left[0]}, ...); of recurrent ones it pages "
            "short convolutions, gated delta nets and Mamba 2, as optimum-intel 2.2 exports them."
        )
    nodes = [node for node in model.get_ops() if node.get_type_name() == PAGED]
    if sum(node.get_input_shape(SINKS_INPUT)[0] > 0 for node in nodes) != num_sinks:
        raise ModelError(f"its attention has sinks, which OpenVINO has not paged. {AS_ONNX}.")
    if counts_positions(model):
        raise ModelError(
            "it counts positions itself and does not read them, so that all tokens of a step would get one "
            f"position. {AS_ONNX}."
        )


def _set(node: ov.Node, index: int, value: Any) -> None:
    node.input(index).replace_source_output(ops.constant(value).output(0))

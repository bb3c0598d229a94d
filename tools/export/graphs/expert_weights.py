"""Quantizes the weights of routed experts to blocks of 4 or 8 bits, each expert as a weight of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.experts_format import EXPERTS, INPUTS, NETWORK
from tools.export.graphs.block_scales import Floats
from tools.export.graphs.parameters import parameter
from tools.export.graphs.quantizing import (
    BITS,
    INT8_SUMS,
    block_size,
    quantize_blocks,
    remove_unused,
    replace,
)


def quantize_experts(model: ir.Model, weights: str, squares: Mapping[str, Floats] | None = None) -> ir.Model:
    """Quantize the weights of all nodes of experts; `model` is changed.

    `weights`: a key of `BITS`.  `squares`: name of a weight → float32[experts, inner], the mean square of
    each number that an expert multiplies it with; 4 bits are rounded for these.
    """
    for node in [node for node in model.graph if (node.domain, node.op_type) == (DOMAIN, EXPERTS)]:
        _quantize(model.graph, node, BITS[weights], squares or {})
    remove_unused(model.graph)
    return model


def _quantize(graph: ir.Graph, node: ir.Node, bits: int, squares: Mapping[str, Floats]) -> None:
    """Replace a node by one with codes and scales in place of its weights."""
    inputs = [*node.inputs, *[None] * (len(INPUTS) - len(node.inputs))]
    attributes: dict[str, Any] = {name: value.value for name, value in node.attributes.items()}
    for side in NETWORK:
        place = INPUTS.index(side)
        if (weight := inputs[place]) is None:
            continue
        values, name = weight.const_value.numpy(), weight.name
        codes, scales = _stacked(values, bits, squares.get(name))
        inputs[place] = parameter(graph, f"{name}.int{bits}", codes)
        inputs[place + 1] = parameter(graph, f"{name}.scales{bits}", scales)
        attributes |= {f"{side}_bits": bits, f"{side}_block": block_size(values.shape[2], bits)}
    attributes["accuracy_level"] = INT8_SUMS
    replace(graph, node, ir.node(EXPERTS, inputs, attributes, domain=DOMAIN, name=node.name))


def _stacked(values: np.ndarray, bits: int, squares: Floats | None) -> tuple[np.ndarray, np.ndarray]:
    """Blocks uint8[experts, rows, blocks, block·bits/8] and scales [experts, rows, blocks] of float weights
    [experts, rows, inner].
    """
    rounded = [
        quantize_blocks(expert.T, bits, None if squares is None else squares[number])
        for number, expert in enumerate(values)
    ]
    scales = np.stack([expert.scales for expert in rounded]).astype(values.dtype)
    return np.stack([expert.packed for expert in rounded]), scales

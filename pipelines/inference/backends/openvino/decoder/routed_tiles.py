"""Gives the experts of optimum-intel's files, a MatMul of tiled rows for all of them, to Braid's own kernels.

    tiled[experts, tokens, width] = the rows of a step, once for each expert
    mixed[tokens, width] = Σ_e down_e(silu(gate_e(tiled[e])) · up_e(tiled[e])) · table[tokens, e]

where `table` is 0 but for the weights of the experts that a token has chosen.  OpenVINO computes the chosen
ones alone, but by products of few rows that take twice as long as those of the kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.block_linears import BITS
from pipelines.inference.backends.openvino.model.experts_operator import LARGEST, OPERATOR, keep_types
from pipelines.inference.backends.openvino.model.graph_matching import kind_of, scalar_of, source_of
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.onnx_format.experts_format import ACTIVATIONS

SHAPING = ("Reshape", "Convert")


class _TiledWeight(NamedTuple):
    """The constants of all experts' weights: codes [experts, rows, groups, group], or without groups."""

    codes: ov.Node
    scales: ov.Node
    zeros: ov.Node | None

    @property
    def bits(self) -> int:
        return BITS[self.codes.get_element_type().to_string()]

    @property
    def group(self) -> int:
        return int(self.codes.get_output_shape(0)[-1])


class _Tiles(NamedTuple):
    rows: ov.Output
    chosen: ov.Output
    weights: ov.Output
    network: tuple[_TiledWeight, ...]
    """The weights of up, down and gate, in the order of the operator's inputs."""


def route_tiles(model: ov.Model, kernels: LinearKernels) -> int:
    """Replace the layers of tiled experts whose form is known; returns how many."""
    count = 0
    for node in [node for node in model.get_ordered_ops() if node.get_type_name() == "ReduceSum"]:
        tiles = _find_tiles(node)
        if tiles is not None:
            count += _replace(node, tiles, kernels)
    if count:
        keep_types(model)
    return count


def _replace(node: ov.Node, tiles: _Tiles, kernels: LinearKernels) -> bool:
    """Whether the operator takes these weights."""
    absent = ops.constant(np.zeros((), np.float32))
    constants = [
        part or absent
        for weight in tiles.network
        for part in (weight.codes, weight.scales, weight.zeros, None)
    ]
    attributes: dict[str, Any] = {
        "levels": kernels.levels,
        "activation": ACTIVATIONS.index("silu"),
        "alpha": 1.0,
        "limit": LARGEST,
        "table": 0,
        "bits": [weight.bits for weight in tiles.network],
        "blocks": [weight.group for weight in tiles.network],
    }
    inputs = [tiles.rows, tiles.chosen, tiles.weights, *(constant.output(0) for constant in constants)]
    try:
        operator = kernels.library.node(OPERATOR, inputs, attributes)
    except RuntimeError:  # sizes or groups that the kernels do not have
        return False
    operator.set_friendly_name(node.get_friendly_name())
    node.output(0).replace(operator.output(0))
    return True


def _find_tiles(total: ov.Node) -> _Tiles | None:
    """What a sum over the experts is the sum of."""
    if total.get_attributes()["keep_dims"] or not _is_axis(total.input_value(1), 0):
        return None
    product = total.input_value(0).get_node()
    if product.get_type_name() != "Multiply":
        return None
    for number in (0, 1):
        down = source_of(product.input_value(number), "Reshape")
        table = source_of(product.input_value(1 - number), "Unsqueeze", "Reshape", "Transpose")
        if down.get_type_name() == "MatMul" and table.get_type_name() == "ScatterElementsUpdate":
            return _of(total, down, table)
    return None


def _of(total: ov.Node, down: ov.Node, table: ov.Node) -> _Tiles | None:
    routed, network = _routed(table), _network(down)
    if routed is None or network is None:
        return None
    tiled, weights = network
    rows = _untiled(tiled, int(weights[0].codes.get_output_shape(0)[0]))
    if rows is None or str(rows.get_partial_shape()) != str(total.output(0).get_partial_shape()):
        return None
    return _Tiles(rows, *routed, weights)


def _routed(table: ov.Node) -> tuple[ov.Output, ov.Output] | None:
    """What each token has chosen and its weights, which a table has that is 0 elsewhere."""
    zeros, chosen, weights, axis = table.input_values()
    if (
        kind_of(zeros) != "Broadcast"
        or scalar_of(zeros.get_node().input_value(0)) != 0
        or not _is_axis(axis, 1)
    ):
        return None
    if table.get_attributes().get("reduction", "none") != "none":
        return None
    if kind_of(weights) == "Slice":  # as many of them as are chosen, which are all
        whole, starts, stops, *_ = weights.get_node().input_values()
        is_whole = kind_of(stops) == "ShapeOf" and stops.get_node().input_value(0) == chosen
        if not is_whole or not _is_axis(starts, 0) or whole.get_partial_shape() != chosen.get_partial_shape():
            return None
        weights = whole
    return chosen, weights


def _network(down: ov.Node) -> tuple[ov.Output, tuple[_TiledWeight, ...]] | None:
    """The tiled rows that a network of a gate reads, and its weights."""
    middle = down.input_value(0).get_node()
    if middle.get_type_name() != "Multiply":
        return None
    for number in (0, 1):
        gate, up = _under_silu(middle.input_value(number)), middle.input_value(1 - number).get_node()
        if gate is None:
            continue
        if {up.get_type_name(), gate.get_type_name()} != {"MatMul"} or up.input_value(0) != gate.input_value(
            0
        ):
            return None
        weights = (_weight(up), _weight(down), _weight(gate))
        known = tuple(weight for weight in weights if weight is not None)
        return (up.input_value(0), known) if len(known) == len(weights) else None
    return None


def _under_silu(value: ov.Output) -> ov.Node | None:
    """What makes x of x · sigmoid(x)."""
    node = value.get_node()
    if node.get_type_name() == "Swish":
        beta = 1.0 if node.get_input_size() == 1 else scalar_of(node.input_value(1))
        return node.input_value(0).get_node() if beta == 1 else None
    if node.get_type_name() == "Multiply":
        for number in (0, 1):
            x, sigmoid = node.input_value(number), node.input_value(1 - number).get_node()
            if sigmoid.get_type_name() == "Sigmoid" and sigmoid.input_value(0) == x:
                return x.get_node()
    return None


def _untiled(tiled: ov.Output, experts: int) -> ov.Output | None:
    """The rows that are there once for each expert, one expert after the other."""
    tile = source_of(tiled, "Reshape")
    if tile.get_type_name() != "Tile":
        return None
    rows, repeats = tile.input_values()
    counts = repeats.get_node()
    is_known = kind_of(repeats) == "Constant" and counts.get_data().reshape(-1).tolist() == [experts, 1]
    return rows if is_known and rows.get_element_type() == ov.Type.f32 else None


def _weight(product: ov.Node) -> _TiledWeight | None:
    attributes = product.get_attributes()
    if attributes["transpose_a"] or not attributes["transpose_b"]:
        return None
    scaled = source_of(product.input_value(1), *SHAPING)
    if scaled.get_type_name() != "Multiply":
        return None
    shifted, scales = scaled.input_value(0).get_node(), source_of(scaled.input_value(1), *SHAPING)
    zeros = None
    if shifted.get_type_name() == "Subtract":
        shifted, zeros = shifted.input_value(0).get_node(), source_of(shifted.input_value(1), *SHAPING)
    codes = source_of(shifted.output(0), *SHAPING)
    constants = [constant for constant in (codes, scales, zeros) if constant is not None]
    if any(constant.get_type_name() != "Constant" for constant in constants):
        return None
    kind = codes.get_element_type().to_string()
    if kind not in BITS or len(codes.get_output_shape(0)) not in (3, 4):
        return None
    if zeros is None and kind.startswith("u"):
        return None  # codes that are the weights themselves
    if zeros is not None and np.prod(list(zeros.get_output_shape(0))) == 1:
        middle = 0 if kind.startswith("i") else 1 << (BITS[kind] - 1)
        if zeros.get_data(dtype=np.float32).item() != middle:
            return None  # the kernels have a zero for each group, or the middle for all codes
        zeros = None
    return _TiledWeight(codes, scales, zeros)


def _is_axis(value: ov.Output, axis: int) -> bool:
    """Whether all numbers of a constant are this one."""
    node = value.get_node()
    return node.get_type_name() == "Constant" and set(node.get_data().reshape(-1).tolist()) == {axis}

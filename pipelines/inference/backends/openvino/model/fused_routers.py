"""Lets the kernels' operator of routed experts choose and weight the experts of a token itself.

A router is some ten small nodes: a product, scores, the best ones, their sum and quotients.  The usual forms
are known; another one stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.graph_matching import (
    is_last_axis,
    kind_of,
    numbers_of,
    scalar_of,
    source_of,
)
from pipelines.inference.backends.openvino.model.operator_library import OperatorLibrary

NETWORKS = frozenset({"Experts", "GgufExperts"})
SCORES = {"Softmax": 1, "Sigmoid": 2}
"""The operator that makes scores of a router's outputs → the attribute's value; 0: none does."""
COLUMNS = 16
"""Outputs of a router that the kernels compute together."""
CHOSEN, WEIGHTS = 1, 2
"""Inputs of the operators."""


class _FoundRouter(NamedTuple):
    """`outputs` [.., experts]; `correction` is added to the scores by which experts are chosen."""

    outputs: ov.Output
    correction: NDArray[np.float32] | None
    attributes: Mapping[str, Any]


def fuse_routers(model: ov.Model, library: OperatorLibrary) -> None:
    """Replace what chooses the experts of the nodes of routed experts in a model, where its form is known."""
    for node in [node for node in model.get_ordered_ops() if node.get_type_name() in NETWORKS]:
        router = None if node.get_attributes()["router_used"] else _find_router(node)
        if router is not None:
            _fuse(node, router, library)


def _fuse(node: ov.Node, router: _FoundRouter, library: OperatorLibrary) -> None:
    experts = router.outputs.get_partial_shape()[len(router.outputs.get_partial_shape()) - 1].get_length()
    weight = _weight(router.outputs, node.input_value(0), experts)
    correction = np.zeros((), np.float32) if router.correction is None else router.correction
    read = router.outputs if weight is None else weight
    rest = node.input_values()[WEIGHTS + 1 :]
    if all(len(value.get_partial_shape()) < 2 for value in rest):  # no biases of experts in a GGUF file
        rest = []
    inputs = [node.input_value(0), read, ops.constant(correction).output(0), *rest]
    attributes = {**node.get_attributes(), "router_given": int(weight is None), **router.attributes}
    try:
        fused = library.node(node.get_type_name(), inputs, attributes)
    except RuntimeError:  # sizes that the operator does not take
        return
    fused.set_friendly_name(node.get_friendly_name())
    node.output(0).replace(fused.output(0))


def _weight(outputs: ov.Output, rows: ov.Output, experts: int) -> ov.Output | None:
    """The weight of the product that makes the outputs, [width, experts and more]; None where it is another
    product.
    """
    product = outputs.get_node()
    if product.get_type_name() != "MatMul" or product.input_value(0) != rows:
        return None
    source = product.input_value(1)
    numbers, attributes = numbers_of(source), product.get_attributes()
    if numbers is None or numbers.ndim != 2 or attributes["transpose_a"]:
        return None
    is_whole = not attributes["transpose_b"] and experts % COLUMNS == 0
    if is_whole and kind_of(source) == "Constant" and source.get_element_type() == ov.Type.f32:
        return source
    columns = numbers.T if attributes["transpose_b"] else numbers
    padded = np.zeros((len(columns), experts + -experts % COLUMNS), np.float32)
    padded[:, :experts] = columns
    return ops.constant(padded).output(0)


def _find_router(node: ov.Node) -> _FoundRouter | None:
    top = source_of(node.input_value(CHOSEN), "Convert")
    values = (*node.input_values()[: WEIGHTS + 1], *top.outputs())
    if any(value.get_partial_shape().rank.is_dynamic for value in values):
        return None
    if top.get_type_name() != "TopK" or not _is_best(top) or not _are_places(node.input_value(CHOSEN)):
        return None
    weights, attributes = _weighting(node.input_value(WEIGHTS))
    ranked, scores, gathered = top.input_value(0), top.input_value(0), None
    correction = None
    if weights.get_node() != top or weights.get_index():
        gathered = weights.get_node()
        if (
            gathered.get_type_name() != "GatherElements"
            or source_of(gathered.input_value(1), "Convert") != top
            or not _are_places(gathered.input_value(1))
            or not _is_of_last(gathered.output(0))
        ):
            return None
        scores = gathered.input_value(0)
        if ranked != scores:
            correction = _correction(ranked, scores)
            if correction is None:
                return None
    readers = [node] if gathered is None else [node, gathered]
    if not _is_read_by(top.output(1), readers):
        return None
    score = SCORES.get(kind_of(scores), 0)
    outputs = scores.get_node().input_value(0) if score else scores
    last = outputs.get_partial_shape()[len(outputs.get_partial_shape()) - 1]
    if (
        outputs.get_element_type() != ov.Type.f32
        or last.is_dynamic
        or (score == 1 and not _is_of_last(scores))
    ):
        return None
    used = int(top.input_value(1).get_node().get_data().item())
    return _FoundRouter(outputs, correction, {"router_used": used, "router_scores": score, **attributes})


def _weighting(value: ov.Output) -> tuple[ov.Output, dict[str, Any]]:
    """The scores of the chosen experts, and what is made of them."""
    attributes: dict[str, Any] = {}
    factor = _factor(value)
    if factor is not None:
        value, attributes["router_factor"] = factor
    divided = _divided(value)
    if divided is not None:
        value, least, more = divided
        attributes |= {"router_sums_to_one": 1, "router_least": least, "router_more": more}
    if kind_of(value) == "Softmax" and _is_of_last(value):
        value, attributes["router_of_chosen"] = value.get_node().input_value(0), 1
    return value, attributes


def _factor(value: ov.Output) -> tuple[ov.Output, float] | None:
    if kind_of(value) != "Multiply":
        return None
    first, second = value.get_node().input_values()
    for other, number in ((first, scalar_of(second)), (second, scalar_of(first))):
        if number is not None:
            return other, number
    return None


def _divided(value: ov.Output) -> tuple[ov.Output, float, float] | None:
    """What is divided by its own sum, the least that this is, and what is added to it."""
    if kind_of(value) != "Divide":
        return None
    part, total = value.get_node().input_values()
    least = more = 0.0
    if kind_of(total) in ("Maximum", "Add"):
        total, number = total.get_node().input_value(0), scalar_of(total.get_node().input_value(1))
        if number is None:
            return None
        least, more = (
            (number, 0.0) if kind_of(value.get_node().input_value(1)) == "Maximum" else (0.0, number)
        )
    summed = total.get_node()
    if summed.get_type_name() != "ReduceSum" or summed.input_value(0) != part:
        return None
    rank = len(part.get_partial_shape())
    is_sum = summed.get_attributes()["keep_dims"] and is_last_axis(summed.input_value(1), rank)
    return (part, least, more) if is_sum else None


def _correction(ranked: ov.Output, scores: ov.Output) -> NDArray[np.float32] | None:
    """What is added to the scores to rank experts by."""
    if kind_of(ranked) != "Add":
        return None
    first, second = ranked.get_node().input_values()
    numbers = numbers_of(second) if first == scores else numbers_of(first) if second == scores else None
    if numbers is None or not numbers.ndim or numbers.size != numbers.shape[-1]:
        return None
    return numbers.reshape(-1)


def _is_best(top: ov.Node) -> bool:
    """Whether a TopK gives the largest numbers of the last axis, as many as a constant says."""
    attributes, rank = top.get_attributes(), len(top.input_value(0).get_partial_shape())
    is_last = attributes["axis"] in (-1, rank - 1)
    is_best = attributes["mode"] == "max" and attributes["sort"] in ("value", "none")
    return bool(is_last and is_best and kind_of(top.input_value(1)) == "Constant")


def _are_places(value: ov.Output) -> bool:
    """Whether a value of a TopK, perhaps converted, is its second output, where the best numbers are."""
    while kind_of(value) == "Convert":
        value = value.get_node().input_value(0)
    return bool(value.get_index() == 1)


def _is_of_last(value: ov.Output) -> bool:
    """Whether the node that makes a value goes along its last axis."""
    rank = len(value.get_partial_shape())
    return value.get_node().get_attributes()["axis"] in (-1, rank - 1)


def _is_read_by(value: ov.Output, readers: list[ov.Node]) -> bool:
    """Whether only `readers` read a value, perhaps converted."""
    for port in value.get_target_inputs():
        node = port.get_node()
        if node.get_type_name() == "Convert":
            if not _is_read_by(node.output(0), readers):
                return False
        elif node not in readers:
            return False
    return True

"""Lets Braid's own kernels compute the linear layers of a model whose weights are of few bits.

The operator reads the constants of the model where they are, in the model's file or in memory; nothing of a
weight is copied before it is packed for the kernels, at the first step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import openvino as ov

from pipelines.inference.backends.openvino.model.fused_linears import (
    BLOCK_LINEAR,
    FILE_LINEAR,
    GGUF_LINEAR,
    fuse_linears,
    with_attributes,
)
from pipelines.inference.backends.openvino.model.graph_matching import source_of
from pipelines.inference.backends.openvino.model.lora_linears import has_weight
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels, OperatorLibrary
from pipelines.inference.backends.openvino.model.row_sums import sum_rows_alike

NOT_WIDENED = "keep_const_precision_0"
"""Runtime attribute of constants that a device leaves in their type, as u4 or f16."""
BITS = {"u4": 4, "u8": 8, "i4": 4, "i8": 8}
SCALES = frozenset({"f32", "f16"})
ROUTED = frozenset({"Experts", "GgufExperts"})
"""Types of the operators that compute routed experts."""
HEAD_LEVELS = 2
"""Levels of the LM head, whose logits are those of float32 to six digits."""


@dataclass(frozen=True)
class BlockLinears:
    """How many of a model's linear layers the `kernels` compute.

    `sums_rows_alike`: no other product is left that sums in another order where a step has one row.
    """

    count: int = 0
    linears: int = 0
    kernels: str = ""
    sums_rows_alike: bool = False

    @property
    def title(self) -> str:
        """What logs and the status page say."""
        return f"{self.count} of {self.linears} by {self.kernels}" if self.count else "by openvino"


@dataclass(frozen=True)
class ComputedRecurrences:
    """How many recurrent layers a model has, and how many of them the `kernels` compute."""

    by_kernels: int = 0
    count: int = 0
    kernels: str = ""

    def facts(self) -> dict[str, str]:
        """What logs and the status page say."""
        if not self.count:
            return {}
        own = f"{self.by_kernels} of {self.count} by {self.kernels}"
        return {"recurrent_layers": own if self.by_kernels else f"{self.count} by openvino"}


class _Weight(NamedTuple):
    """The constants of a weight; without zero points they are the middle of the codes."""

    codes: ov.Node
    scales: ov.Node
    zeros: ov.Node | None

    @property
    def constants(self) -> list[ov.Node]:
        return [each for each in self if each is not None]


def use_block_linears(
    model: ov.Model,
    kernels: LinearKernels,
    head: Sequence[ov.Node] = (),
    files: Sequence[MappedFile] = (),
) -> BlockLinears:
    """Replace the linear layers of `model` that the kernels can compute; nodes of `head` get HEAD_LEVELS.

    Names of nodes stay.  A weight of several linear layers is left to OpenVINO, which packs it once.  One in
    a file of `files` is read from there, and is no part of the graph any more.
    """
    count, linears = _replace_all(model, kernels, {node.get_name() for node in head}, files)
    fuse_linears(model, kernels.library)
    if any(node.get_type_name() in ROUTED for node in model.get_ops()):
        from pipelines.inference.backends.openvino.model.fused_routers import (
            fuse_routers,  # not for other models
        )

        fuse_routers(model, kernels.library)
    model.validate_nodes_and_infer_types()
    sums_alike = count > 0 and sum_rows_alike(model)
    return BlockLinears(count, linears, kernels.title, sums_alike)


def _replace_all(
    model: ov.Model, kernels: LinearKernels, head: set[str], files: Sequence[MappedFile]
) -> tuple[int, int]:
    """How many linear layers the kernels compute, and of how many.  Nodes that were replaced end with this
    function: while they are there, their inputs have more readers than the model shows.
    """
    packed = [node for node in model.get_ops() if node.get_type_name() == GGUF_LINEAR]
    linears = [node for node in model.get_ops() if node.get_type_name() == "MatMul" and has_weight(node)]
    weights = {node.get_name(): _weight(node) for node in linears}
    uses = Counter(weight.codes.get_name() for weight in weights.values() if weight is not None)
    count = len(packed)
    for node in packed:
        if node.get_name() in head:
            _set_levels(node, kernels.library)
    for node in linears:
        weight = weights[node.get_name()]
        if weight is not None and uses[weight.codes.get_name()] == 1:
            levels = HEAD_LEVELS if node.get_name() in head else kernels.levels
            count += _replace(node, weight, _place(weight, files), kernels.library, levels)
    return count, len(packed) + len(linears)


def _set_levels(node: ov.Node, library: OperatorLibrary) -> None:
    """Give a linear layer whose weight is in a GGUF file HEAD_LEVELS."""
    operator = with_attributes(node, node.input_value(0), library, levels=HEAD_LEVELS)
    node.output(0).replace(operator.output(0))


def _replace(
    node: ov.Node, weight: _Weight, place: dict[str, Any] | None, library: OperatorLibrary, levels: int
) -> bool:
    """Whether an operator takes this weight."""
    rows = node.input_value(0)
    constants = [constant.output(0) for constant in weight.constants]
    try:
        operator = library.node(BLOCK_LINEAR, [rows, *constants], {"levels": levels})
    except RuntimeError:  # sizes or groups that the kernels do not have
        return False
    if place is not None:
        with suppress(RuntimeError):  # a path that is no UTF-8
            operator = library.node(FILE_LINEAR, [rows], {"levels": levels, **place})
    for constant in weight.constants:
        constant.get_rt_info()[NOT_WIDENED] = 1
    operator.set_friendly_name(node.get_friendly_name())
    node.output(0).replace(operator.output(0))
    return True


def _place(weight: _Weight, files: Sequence[MappedFile]) -> dict[str, Any] | None:
    """The attributes that say where in a file a weight is; None for one that is not in a file, whole."""
    shape = [*weight.codes.get_output_shape(0)]
    groups = shape[1] if len(shape) == 3 else 1
    for file in files:
        places = [file.place(constant) for constant in weight.constants]
        if None in places:
            continue
        types = [_type(constant) for constant in weight.constants]
        if weight.zeros is None:
            types.append("none")
            places.append(-1)
        return {
            "file": str(file.real_path),
            "size": len(file.bytes),
            "time": file.changed_ns,
            "types": " ".join(types),
            "places": [shape[0], groups, shape[-1], *places],
        }
    return None


def _weight(node: ov.Node) -> _Weight | None:
    """The weight of a linear layer, where its codes are of few bits and lie as the kernels need them."""
    attributes = node.get_attributes()
    is_rounded = source_of(node.input_value(0), "Convert", "Reshape").get_type_name() == "FakeQuantize"
    if is_rounded or attributes["transpose_a"] or not attributes["transpose_b"]:
        return None
    product = source_of(node.input_value(1), "Convert", "Reshape")
    if product.get_type_name() != "Multiply":
        return None
    if not _are_by_group(product):
        return None
    shifted, scales = (product.input_value(number).get_node() for number in (0, 1))
    zeros = None
    if shifted.get_type_name() == "Subtract":
        if not _are_by_group(shifted):
            return None
        shifted, zeros = (shifted.input_value(number).get_node() for number in (0, 1))
    return _checked(_constant(shifted), _constant(scales), None if zeros is None else _constant(zeros))


def _are_by_group(node: ov.Node) -> bool:
    """Whether the second operand has one number for each group of the first, or one for all."""
    codes, numbers = (node.input_value(number).get_partial_shape() for number in (0, 1))
    if codes.is_dynamic or numbers.is_dynamic or not len(codes):
        return False
    *by_group, _ = (axis.get_length() for axis in codes)
    sizes = [axis.get_length() for axis in numbers]
    return all(size == 1 for size in sizes) or sizes == [*by_group, 1]


def _constant(node: ov.Node) -> ov.Node:
    """The constant that a node gives in another type or shape, or the node that is in its place."""
    return source_of(node.output(0), "Convert", "Reshape")


def _checked(codes: ov.Node, scales: ov.Node, zeros: ov.Node | None) -> _Weight | None:
    constants = [constant for constant in (codes, scales, zeros) if constant is not None]
    if any(constant.get_type_name() != "Constant" for constant in constants):
        return None
    bits, floats = BITS.get(_type(codes)), _type(scales)
    shape = list(codes.get_output_shape(0))
    num_scales = _size(scales)
    if bits is None or floats not in SCALES or num_scales != _num_groups(shape):
        return None
    middle = 0 if _type(codes).startswith("i") else 1 << (bits - 1)
    if zeros is None:
        return _Weight(codes, scales, zeros=None) if middle == 0 else None
    if _size(zeros) == 1:
        is_middle = float(zeros.get_data(dtype="float32").item()) == middle
        return _Weight(codes, scales, zeros=None) if is_middle else None
    fits = _type(zeros) == _type(codes) or (_type(zeros), floats) == ("f32", "f32")
    return _Weight(codes, scales, zeros) if fits and _size(zeros) == num_scales else None


def _num_groups(shape: list[int]) -> int | None:
    """How many groups [n, groups, group] codes have; a row of [n, k] is one."""
    return shape[0] * shape[1] if len(shape) == 3 else shape[0] if len(shape) == 2 else None


def _type(node: ov.Node) -> str:
    return str(node.get_element_type().to_string())


def _size(node: ov.Node) -> int:
    size = 1
    for axis in node.get_output_shape(0):
        size *= axis
    return size

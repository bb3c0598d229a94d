"""Makes room for adapters behind the linear layers of an OpenVINO model (`adapter_stacks`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.adapters.linear_names import is_wanted, linear_name, named_linear
from pipelines.adapters.weights import LinearShape
from pipelines.base.element_types import DTYPES
from pipelines.inference.backends.adapter_stacks import SLOT, a_name, b_name
from pipelines.inference.backends.openvino.model.arrays import NAMES
from pipelines.inference.backends.openvino.model.inference_type import inference_type
from pipelines.inference.contracts.device_errors import ModelError


def add_lora(model: ov.Model, targets: frozenset[str], by_text: bool = False) -> dict[str, LinearShape]:
    """Add inputs for the adapters of all linear layers that `targets` name, or of all; return these linear
    layers.

    `by_text`: the model reads whole texts side by side.  A module that the model calls twice is one linear
    layer.
    It is found by the name that its node has from the checkpoint, which no kind of weight changes; in a model
    read from ONNX also by that of its weight.  Raises `ModelError` for linear layers of rounded activations.
    """
    slot = new_input(SLOT, [-1, 1, -1] if by_text else [-1, -1])
    sides: dict[str, tuple[ov.op.Parameter, ov.op.Parameter]] = {}
    shapes = {}
    for linear, node in list(_linears(model, targets)):
        _check_rows(linear, node)
        shape = shapes[linear] = linear_shape(node)
        if linear not in sides:
            a = new_input(a_name(linear), [shape.size_in, -1])
            sides[linear] = a, new_input(b_name(linear), [-1, shape.size_out])
        _add_behind(node, shape, *sides[linear], slot)
    if shapes:
        model.add_parameters([slot, *(parameter for both in sides.values() for parameter in both)])
        model.validate_nodes_and_infer_types()
    return shapes


def narrow_adapters(model: ov.Model, precision: str | None) -> np.dtype[Any]:
    """Make the inputs for A and B, if there are any, of the type in which the model will compute; return it.

    Each step would convert inputs of another type.
    """
    names = (a_name(""), b_name(""))
    inputs = [
        parameter for parameter in model.get_parameters() if parameter.get_friendly_name().startswith(names)
    ]
    element = inference_type(precision) if inputs else ov.Type.f32
    if element != ov.Type.f32:
        for parameter in inputs:
            readers = parameter.output(0).get_target_inputs()
            parameter.set_element_type(element)
            wide = ops.convert(parameter, "f32")  # which the device leaves out
            for reader in readers:
                reader.replace_source_output(wide.output(0))
        model.validate_nodes_and_infer_types()
    return DTYPES[NAMES[element.get_type_name()]]


def _linears(model: ov.Model, targets: frozenset[str]) -> Iterator[tuple[str, ov.Node]]:
    for node in model.get_ordered_ops():
        if node.get_type_name() == "MatMul" and has_weight(node):
            name = node.get_friendly_name()
            linear = linear_name(name.partition("/")[0]) or named_linear(_weight_name(node), name)
            if linear is not None and is_wanted(linear, targets):
                yield linear, node


def has_weight(node: ov.Node) -> bool:
    rows, weight = (node.input_value(number).get_partial_shape() for number in (0, 1))
    return weight.is_static and len(weight) == 2 and rows.is_dynamic


def _check_rows(linear: str, node: ov.Node) -> None:
    """Raise `ModelError` where the linear layer reads other numbers than its module did in training."""
    if node.input_value(0).get_node().get_type_name() == "FakeQuantize":
        raise ModelError(
            f"{linear} reads activations in int8, to which no adapter was trained; remove `adapters`, or "
            "export the model without --activations int8"
        )


def _weight_name(node: ov.Node) -> str:
    """The name of the constant that the weight is computed from."""
    weight = node.input_value(1).get_node()
    while weight.get_input_size():
        weight = weight.input_value(0).get_node()
    return str(weight.get_friendly_name())


def linear_shape(node: ov.Node) -> LinearShape:
    first, second = (size.get_length() for size in node.input_value(1).get_partial_shape())
    is_transposed = node.get_attributes()["transpose_b"]
    return LinearShape(second, first) if is_transposed else LinearShape(first, second)


def new_input(name: str, shape: list[int]) -> ov.op.Parameter:
    made = ops.parameter(shape, np.float32, name=name)
    made.output(0).set_names({name})
    return made


def _add_behind(
    node: ov.Node, shape: LinearShape, a: ov.op.Parameter, b: ov.op.Parameter, slot: ov.op.Parameter
) -> None:
    """Where `slot` is of texts, `out` has an axis for them and one for their tokens."""
    out, by_text = node.output(0), len(slot.get_partial_shape()) == 3
    readers, dtype = list(out.get_target_inputs()), out.get_element_type()
    if by_text:
        low = ops.multiply(ops.matmul(_float_rows(node), a, False, False), slot)
        more = ops.matmul(low, b, False, False)
    else:
        low = ops.multiply(through_a(node, shape, a), slot)
        more = ops.reshape(ops.matmul(low, b, False, False), shape_as(out, shape.size_out), False)
    total = ops.add(out, ops.convert(more, dtype.to_string()) if dtype != ov.Type.f32 else more)
    for reader in readers:
        reader.replace_source_output(total.output(0))


def through_a(node: ov.Node, shape: LinearShape, a: ov.op.Parameter) -> ov.Node:
    """float32[tokens, R]: tokens are the only axis of the activations besides the last longer than 1."""
    rows = ops.reshape(_float_rows(node), ops.constant([-1, shape.size_in]), False)
    return ops.matmul(rows, a, False, False)


def _float_rows(node: ov.Node) -> ov.Output:
    rows = node.input_value(0)
    return rows if rows.get_element_type() == ov.Type.f32 else ops.convert(rows, "f32").output(0)


def shape_as(out: ov.Output, size: int) -> ov.Node:
    """The shape of `out`, of which one axis is dynamic; computed where several are."""
    sizes = [-1 if axis.is_dynamic else axis.get_length() for axis in out.get_partial_shape()]
    return ops.constant([*sizes[:-1], size]) if sizes[:-1].count(-1) == 1 else ops.shape_of(out)

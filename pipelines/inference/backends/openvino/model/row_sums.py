"""Lets OpenVINO sum each row of a product in the same order, however many rows there are.

It sums one row in another order than two or more, which all have the same sums.  Where its few products have
a row more than they need, no step of one token needs a second one, which costs a mixture of experts as much
as the first, since it may choose others.
"""

from __future__ import annotations

import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.lora_linears import has_weight

MOST_COLUMNS = 1024
"""Results of a row beyond which a product is left as it is: routers and gates have fewer."""


def sum_rows_alike(model: ov.Model) -> bool:
    """Give products with one more row than they need to those that depend on how many there are, where these
    are few and small; return whether all rows of `model` are then summed alike.
    """
    products = [node for node in model.get_ops() if _sums(node)]
    if not all(_is_small(node) for node in products):
        return False
    for node in products:
        _add_row(node)
    return True


def _sums(node: ov.Node) -> bool:
    """Whether a node is a product of more than one number a sum, which rotary positions are not."""
    if node.get_type_name() != "MatMul":
        return False
    inner = node.input_value(0).get_partial_shape()[-1]
    return bool(inner.is_dynamic or inner.get_length() != 1)


def _is_small(node: ov.Node) -> bool:
    """Whether a node is a product of rows, [.., rows, numbers], and a small weight."""
    if not has_weight(node) or node.get_attributes()["transpose_a"]:
        return False
    shape = node.input_value(0).get_partial_shape()
    one_axis = len(shape) >= 2 and all(each.is_static and each.get_length() == 1 for each in list(shape)[:-2])
    columns = node.get_output_partial_shape(0)[-1]
    return bool(one_axis and columns.is_static and columns.get_length() <= MOST_COLUMNS)


def _add_row(node: ov.Node) -> None:
    """Compute the first row of a product twice, and leave out the second result."""
    rows, weight = node.input_value(0), node.input_value(1)
    axis = [len(rows.get_partial_shape()) - 2]
    first = ops.slice(rows, [0], [1], [1], axis)
    transposed = node.get_attributes()["transpose_b"]
    product = ops.matmul(ops.concat([rows, first], axis[0]), weight, False, transposed)
    product.set_friendly_name(node.get_friendly_name())
    result = ops.slice(product, [0], [-1], [1], axis)
    readers = node.output(0).get_target_inputs()
    for reader in readers:
        reader.replace_source_output(result.output(0))

"""Recognizes values of an OpenVINO graph: constants, scalars, axes, and what makes them."""

from __future__ import annotations

import numpy as np
import openvino as ov
from numpy.typing import NDArray

ENDS_OF_LAST = (-1, 0, 1)
"""Start, stop and step of a Range that is the last axis."""


def kind_of(value: ov.Output) -> str:
    """The type of the node that makes a value."""
    return str(value.get_node().get_type_name())


def source_of(value: ov.Output, *between: str) -> ov.Node:
    """The node that makes a value, behind nodes of the types `between`."""
    node = value.get_node()
    while node.get_type_name() in between:
        node = node.input_value(0).get_node()
    return node


def numbers_of(value: ov.Output) -> NDArray[np.float32] | None:
    """The numbers of a constant of floats, perhaps converted from another type; None for other values."""
    node = source_of(value, "Convert")
    if node.get_type_name() != "Constant" or not node.get_element_type().is_real():
        return None
    return np.asarray(node.get_data(dtype=np.float32))


def scalar_of(value: ov.Output) -> float | None:
    """The number of a constant with a single one; None for other values."""
    numbers = numbers_of(value)
    return float(numbers.item()) if numbers is not None and numbers.size == 1 else None


def is_last_axis(value: ov.Output, rank: int) -> bool:
    """Whether a value, a constant or a range, names the last of `rank` axes and no other."""
    node = value.get_node()
    if node.get_type_name() == "Constant":
        return node.get_data().reshape(-1).tolist() in ([-1], [rank - 1])
    if node.get_type_name() != "Range":
        return False
    ends = [end.get_node() for end in node.input_values()]
    if any(end.get_type_name() != "Constant" for end in ends):
        return False
    return tuple(int(end.get_data().item()) for end in ends) == ENDS_OF_LAST

"""The weights of few bits of an exported model, as floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov

READ_BY = {"MatMul": 1, "Gather": 0}
"""Operator → its input that is a weight."""
TABLES = frozenset({"u8", "i8", "u4", "i4", "f16"})


def dequantized(file: Path) -> dict[str, np.ndarray]:
    """The weights of few bits as floats, named as in the checkpoint, whose products have them turned."""
    ports = {}
    for node in ov.Core().read_model(file).get_ordered_ops():
        place = READ_BY.get(node.get_type_name())
        if place is not None and _is_compressed(node.input_value(place)):
            ports[f"{_module(node.get_friendly_name())}.weight"] = (node, place)
    weights = {}
    for name, (node, place) in ports.items():
        weight = node.input_value(place)
        values = ov.Core().compile_model(ov.Model([weight], []), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(
            {}
        )[0]
        turned = node.get_type_name() == "MatMul" and not node.get_attributes()["transpose_b"]
        weights[name] = values.astype(np.float32).T if turned else values.astype(np.float32)
    return weights


def _is_compressed(weight: ov.Output) -> bool:
    """Whether it is computed from numbers of few bits, and from nothing that a request gives."""
    nodes, types = [weight.get_node()], set()
    while nodes:
        node = nodes.pop()
        if node.get_type_name() in ("Parameter", "ShapeOf"):
            return False
        if not node.get_input_size():
            types.add(node.get_element_type().to_string())
        nodes += [input_value.get_node() for input_value in node.input_values()]
    return bool(types & TABLES)


def _module(node: str) -> str:
    """The name of the module of a node, as optimum-intel and torch's ONNX export write it."""
    if node.startswith("__module."):
        return node.removeprefix("__module.").partition("/")[0]
    return node.removeprefix("/model/").rpartition("/")[0].replace("/", ".")

"""Weights of a graph that is being changed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir


def parameter(graph: ir.Graph, name: str, tensor: ir.TensorProtocol | np.ndarray) -> ir.Value:
    """A new initializer of `graph`."""
    held = ir.tensor(tensor, name=name) if isinstance(tensor, np.ndarray) else tensor
    value = ir.Value(name=name, type=ir.TensorType(held.dtype), shape=ir.Shape(held.shape), const_value=held)
    graph.register_initializer(value)
    return value

"""Graph edits that every lowering needs: step inputs, new nodes in order, replacement of a node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from pipelines.inference.backends.onnxruntime.step_input_names import CUMULATIVE, PAST, SLOTS, TABLE
from pipelines.onnx_format.decoder_format import INPUT_IDS, POSITION_IDS

FARTHEST = np.iinfo(np.int64).max  # the end of a Slice to the end


class GraphWriter:
    """Collects new nodes in order until they are inserted into the graph; creates each constant once."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self._nodes: list[ir.Node] = []

    def op(
        self,
        op_type: str,
        *inputs: ir.Value | None,
        domain: str = "",
        output: ir.Value | None = None,
        **attributes: Any,
    ) -> ir.Value:
        """Add a node and return its one output; it is `output` when that is given."""
        outputs = None if output is None else [output]
        return self.add(ir.node(op_type, inputs, attributes, domain=domain, outputs=outputs))

    def add(self, node: ir.Node) -> ir.Value:
        """Add a node and return its first output."""
        self._nodes.append(node)
        return node.outputs[0]

    def arange(self, end: ir.Value) -> ir.Value:
        """0, 1, … below the scalar `end`."""
        return self.op("Range", self.number(0), end, self.number(1))

    def ints(self, *numbers: int) -> ir.Value:
        """int64[len(numbers)]."""
        return self.constant("braid.ints." + "_".join(map(str, numbers)), np.array(numbers, np.int64))

    def number(self, number: int) -> ir.Value:
        """A scalar int64."""
        return self.constant(f"braid.number.{number}", np.array(number, np.int64))

    def constant(self, name: str, array: np.ndarray) -> ir.Value:
        """The initializer of this name, created at the first call."""
        if name not in self.graph.initializers:
            tensor = ir.tensor(array, name=name)
            value = ir.val(name, tensor.dtype, list(array.shape), const_value=tensor)
            self.graph.register_initializer(value)
        return self.graph.initializers[name]

    def insert_before(self, node: ir.Node) -> None:
        self.graph.insert_before(node, self._nodes)
        self._nodes = []

    def replace(self, node: ir.Node, result: ir.Value) -> None:
        """Insert the collected nodes in the place of `node`; `result` replaces its one output."""
        self.insert_before(node)
        old = node.outputs[0]
        result.type, result.shape = old.type, old.shape
        old.replace_all_uses_with(result)
        self.graph.remove(node, safe=True)


def declare_step_inputs(graph: ir.Graph) -> dict[str, ir.Value]:
    """Add the step's inputs that are not in Braid's format; return all inputs by name."""
    shapes: dict[str, list[str | int]] = {
        CUMULATIVE: ["batch_plus_1"],
        PAST: ["batch"],
        TABLE: ["batch", "columns"],
        SLOTS: ["num_tokens"],
    }
    graph.inputs.extend(ir.val(name, ir.DataType.INT32, shape) for name, shape in shapes.items())
    return {value.name or "": value for value in graph.inputs}


def add_batch_axis(writer: GraphWriter, inputs: dict[str, ir.Value]) -> None:
    """Declare ids and positions as [T]; an Unsqueeze makes the [1, T] of Braid's format."""
    for name in (INPUT_IDS, POSITION_IDS):
        row = inputs[name]
        inputs[name] = ir.val(name, ir.DataType.INT64, ["num_tokens"])
        made = writer.op("Unsqueeze", inputs[name], writer.ints(0))
        made.name, made.type, made.shape = f"{name}.row", row.type, row.shape
        row.replace_all_uses_with(made)
        writer.graph.inputs[writer.graph.inputs.index(row)] = inputs[name]

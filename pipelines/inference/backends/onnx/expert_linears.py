"""Replaces nodes of routed experts by plain ONNX: a linear layer for each weight of each expert.

The rows that chose an expert are brought together, sorted by counting, so that an expert computes its own
rows alone.  Weights stay in their files: that of one expert is a part of the bytes of all.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pipelines.inference.backends.onnx.experts import Experts, ExpertWeight, find_experts, shape_of
from pipelines.inference.backends.onnx.graph_rewrites import (
    CONTRIB,
    NodeInserter,
    constant_number,
    replace_by,
)
from pipelines.onnx_format.decoder_format import DOMAIN

E2M1_LINEAR = "E2M1Linear"
"""A MatMulNBits whose codes are of the table e2m1; it exists until an engine's lowering replaces it."""
FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64


def use_expert_linears(graph: ir.Graph, least_rows: int = 1) -> tuple[int, int]:
    """Replace all nodes of experts; returns how many layers they were, and how many linear layers of few bits
    stand in for them.

    Weights of codes become MatMulNBits, and E2M1Linear where their table is e2m1.  `least_rows` 2: an expert
    that one row chose computes two, for an engine that sums one row in another order than several.
    """
    num_layers = num_linears = 0
    for experts in find_experts(graph):
        _replace(graph, experts, least_rows)
        num_layers += 1
        num_linears += experts.count * sum(weight.bits > 0 for weight in experts.network)
    return num_layers, num_linears


def _replace(graph: ir.Graph, experts: Experts, least_rows: int) -> None:
    replace_by(graph, experts.node, _LayerWriter(graph, experts, least_rows).mixed())
    for weight in experts.network:
        for part in weight.parts:
            if not part.uses():
                graph.initializers.pop(part.name or "", None)


class _LayerWriter:
    """The nodes of one layer, before the node that they replace."""

    def __init__(self, graph: ir.Graph, experts: Experts, least_rows: int) -> None:
        self._graph, self._experts, self._least_rows = graph, experts, least_rows
        self._writer = NodeInserter(graph, experts.node)
        self._op, self._ints = self._writer.op, self._writer.ints

    def mixed(self) -> ir.Value:
        op, ints, experts = self._op, self._ints, self._experts
        known = num_used(experts.chosen)
        used = op("Shape", experts.chosen, start=2) if known is None else ints(known)
        self._flat = op("Reshape", experts.chosen, ints(-1))
        place, pairs = self._sort(), self._arange(self._flat)
        if self._least_rows > 1:
            place_of_all, pairs = self._with_second_rows(place, pairs)
        else:
            place_of_all = place
        order = op("ScatterElements", place_of_all, place_of_all, pairs, axis=0)
        self._expert = op("Gather", self._flat, order, axis=0)
        read = op("Gather", self._float32(experts.hidden_states), op("Div", order, used), axis=1)
        results = op("Gather", self._linear(self._middle(read), experts.down), place, axis=1)
        shape = op("Concat", ints(1, -1), used, ints(experts.width), axis=0)
        weights = op("Unsqueeze", self._float32(experts.weights), ints(3))
        weighted = op("Mul", op("Reshape", results, shape), weights)
        mixed = op("ReduceSum", weighted, ints(2), keepdims=0)
        dtype = experts.hidden_states.dtype
        return mixed if dtype in (None, FLOAT) else op("Cast", mixed, to=int(dtype))

    def _sort(self) -> ir.Value:
        """int64[pairs], where the row of each token and chosen expert is among all rows, sorted by expert;
        notes how many rows each expert has, and where they begin.
        """
        op, ints = self._op, self._ints
        on_off = self._writer.constant(np.array([0, 1], np.int64))
        is_chosen = op("OneHot", self._flat, ints(self._experts.count), on_off, axis=1)
        so_far = op("CumSum", is_chosen, self._number(0))
        self._counts = op("ReduceSum", is_chosen, ints(0), keepdims=0)
        if self._least_rows > 1:
            self._is_alone = op("Equal", self._counts, self._number(1))
            self._counts = op("Add", self._counts, op("Cast", self._is_alone, to=int(INT64)))
        self._begins = op("Sub", op("CumSum", self._counts, self._number(0)), self._counts)
        column = op("Unsqueeze", self._flat, ints(1))
        numbers = op("GatherElements", op("Add", so_far, self._begins), column, axis=1)
        return op("Sub", op("Reshape", numbers, ints(-1)), self._number(1))

    def _with_second_rows(self, place: ir.Value, pairs: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Places and pairs with a second row, that of the first pair, behind each row that is alone."""
        op = self._op
        alone = op("Reshape", op("NonZero", self._is_alone), self._ints(-1))
        second = op("Add", op("Gather", self._begins, alone, axis=0), self._number(1))
        first_pair = op("Mul", alone, self._number(0))
        return op("Concat", place, second, axis=0), op("Concat", pairs, first_pair, axis=0)

    def _arange(self, values: ir.Value) -> ir.Value:
        """int64 0, 1, … as many as there are values."""
        one = self._op("Add", self._op("Mul", values, self._number(0)), self._number(1))
        return self._op("Sub", self._op("CumSum", one, self._number(0)), self._number(1))

    def _middle(self, read: ir.Value) -> ir.Value:
        """What `down` reads: the activated gate times `up`."""
        experts = self._experts
        up = self._linear(read, experts.up)
        if experts.gate is None:
            return self._activated(up)
        gate = self._linear(read, experts.gate)
        if experts.activation == "clamped":
            least, most = self._float(-experts.limit), self._float(experts.limit)
            gate = self._op("Min", gate, most)
            up = self._op("Add", self._op("Clip", up, least, most), self._float(1.0))
        return self._op("Mul", self._activated(gate), up)

    def _activated(self, value: ir.Value) -> ir.Value:
        op, kind = self._op, self._experts.activation
        if kind.startswith("gelu"):
            return op("Gelu", value, approximate="tanh" if kind == "gelu_tanh" else "none")
        if kind == "relu2":
            relu = op("Relu", value)
            return op("Mul", relu, relu)
        scaled = op("Mul", value, self._float(self._experts.alpha)) if kind == "clamped" else value
        return op("Mul", value, op("Sigmoid", scaled))

    def _linear(self, rows: ir.Value, weight: ExpertWeight) -> ir.Value:
        """float32 [1, pairs, size] of sorted rows, each multiplied by the weight of its expert."""
        op, (count, _, _) = self._op, weight.shape
        rows = rows if weight.bits else op("Squeeze", rows, self._ints(0))  # for Gemm
        split = self._writer.node("Split", [rows, self._counts], "", count, {"axis": -2})
        results = [self._expert_linear(part, weight, expert) for expert, part in enumerate(split.outputs)]
        result = op("Concat", *results, axis=-2)
        result = result if weight.bits else op("Unsqueeze", result, self._ints(0))
        return result if weight.bias is None else op("Add", result, op("Gather", weight.bias, self._expert))

    def _expert_linear(self, rows: ir.Value, weight: ExpertWeight, expert: int) -> ir.Value:
        _, size, columns = weight.shape
        parts = [weight.codes, weight.scales, *([] if weight.zeros is None else [weight.zeros])]
        own = [None if part is None else one_of(self._graph, part, expert) for part in parts]
        if not weight.bits:
            return self._op("Gemm", rows, self._float32(own[0]), transB=1)
        own[1] = self._float32(own[1])
        sizes = {"K": columns, "N": size, "bits": weight.bits, "block_size": weight.block}
        if weight.is_e2m1:
            return self._op(E2M1_LINEAR, rows, *own, domain=DOMAIN, **sizes)
        level = self._experts.accuracy_level
        return self._op("MatMulNBits", rows, *own, domain=CONTRIB, **sizes, accuracy_level=level)

    def _float32(self, value: ir.Value | None) -> ir.Value:
        assert value is not None
        return value if value.dtype in (None, FLOAT) else self._op("Cast", value, to=int(FLOAT))

    def _number(self, number: int) -> ir.Value:
        return self._writer.constant(np.array(number, np.int64))

    def _float(self, number: float) -> ir.Value:
        return self._writer.constant(np.array(number, np.float32))


def one_of(graph: ir.Graph, value: ir.Value, expert: int) -> ir.Value:
    """The initializer of one expert's part of an initializer of all experts, over the same bytes."""
    name = f"{value.name}.{expert}"
    if name not in graph.initializers:
        tensor, shape = value.const_value, ir.Shape(shape_of(value)[1:])
        assert tensor is not None
        if isinstance(tensor, ir.ExternalTensor):
            size = tensor.nbytes // shape_of(value)[0]
            offset = (tensor.offset or 0) + expert * size
            part: ir.TensorProtocol = ir.ExternalTensor(
                tensor.location, offset, size, tensor.dtype, shape=shape, name=name, base_dir=tensor.base_dir
            )
        else:
            part = ir.tensor(tensor.numpy()[expert], dtype=tensor.dtype, name=name)
        graph.register_initializer(ir.val(name, tensor.dtype, shape, const_value=part))
    return graph.initializers[name]


def num_used(chosen: ir.Value) -> int | None:
    """How many experts a token uses, where the graph says it.

    Then no node computes a shape: OpenVINO gives it another type in a graph that was stored.
    """
    if chosen.shape is not None and isinstance(used := chosen.shape[-1], int):
        return used
    node = chosen.producer()
    count = constant_number(node.inputs[1]) if node is not None and node.op_type == "TopK" else None
    return None if count is None else int(count)

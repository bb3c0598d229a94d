"""Makes room for adapters behind the linear layers of a decoder for a GPU.

Behind each linear layer y of x a model computes y + ((x · Aᵀ) * slot) · B.  A[R, in] and B[R, out] are the
rows of
the step's adapters, R in all, taken on the device from the pools in which those of all loaded adapters are
(`adapter_pools`); slot[tokens, R] is 1 where a token and a row have one owner, else 0.  Nothing but the
numbers of rows and owners changes with the step, so that a CUDA graph can be captured for each R, and with
R = 0 nothing is added.

Owners are compared by two operators, not by Equal, whose CUDA kernel in ONNX Runtime is registered for older
opsets than 19: it would be computed on the CPU, and no graph captured.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from pipelines.adapters.linear_names import is_wanted
from pipelines.inference.backends.adapter_stacks import a_name, b_name
from pipelines.inference.backends.onnx.graph_rewrites import CONTRIB
from pipelines.inference.backends.onnx.lora_linears import put_behind
from pipelines.inference.backends.onnx.named_linears import NamedLinear, find_linears
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import ELEMENTS, LoraLinear
from pipelines.inference.backends.onnxruntime.step_input_names import ADAPTER_ROWS, ROW_OWNERS, TOKEN_OWNERS

RANK, POOL_ROWS = "adapters_rank", "adapters_rows"
ELEMENT_NAMES = {element.number: name for name, element in ELEMENTS.items()}


def add_adapter_pools(graph: ir.Graph, targets: frozenset[str]) -> tuple[LoraLinear, ...]:
    """Add pools for the adapters of all linear layers that `targets` name, or of all; return these linear
    layers.
    """
    linears = [each for each in find_linears(graph) if is_wanted(each.name, targets)]
    if linears:
        adding = _Adding(graph)
        for number, linear in enumerate(linears):
            adding.add_behind(linear, number)
    return tuple({each.name: _described(each) for each in linears}.values())


def _described(linear: NamedLinear) -> LoraLinear:
    element = ELEMENT_NAMES[int(linear.dtype)]
    return LoraLinear(linear.name, linear.shape.size_in, linear.shape.size_out, element)


class _Adding:
    """One pass over one graph."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        graph.opset_imports[CONTRIB] = 1
        self._rows = self._input(ADAPTER_ROWS, ir.DataType.INT32, [RANK])
        row_owners = self._input(ROW_OWNERS, ir.DataType.INT32, [1, RANK])
        token_owners = self._input(TOKEN_OWNERS, ir.DataType.INT32, ["adapters_tokens", 1])
        pair = [token_owners, row_owners]
        compared = [ir.node(name, pair) for name in ("LessOrEqual", "GreaterOrEqual")]
        self._are_same = ir.node("And", [node.outputs[0] for node in compared])
        graph.insert_before(graph[0], [*compared, self._are_same])
        self._slots: dict[ir.DataType, ir.Value] = {}
        self._taken: dict[str, tuple[ir.Value, ir.Value]] = {}

    def add_behind(self, linear: NamedLinear, number: int) -> None:
        slot, nodes = self._slot(linear.dtype), []
        if linear.name not in self._taken:  # a module that the model calls twice is one linear layer
            nodes = [self._take(name, linear, size) for name, size in _pools(linear)]
            self._taken[linear.name] = nodes[0].outputs[0], nodes[1].outputs[0]
        a, b = self._taken[linear.name]
        low = ir.node("FusedMatMul", [linear.rows, a], {"transB": 1}, domain=CONTRIB)
        own = ir.node("Mul", [*low.outputs, slot])
        more = ir.node("MatMul", [*own.outputs, b])
        total = ir.node("Add", [linear.out, *more.outputs])
        put_behind(self.graph, linear.out, [*nodes, low, own, more, total], f"adapters.{number}")

    def _slot(self, dtype: ir.DataType) -> ir.Value:
        if dtype not in self._slots:
            cast = ir.node("Cast", [*self._are_same.outputs], {"to": int(dtype)})
            self.graph.insert_after(self._are_same, [cast])
            self._slots[dtype] = cast.outputs[0]
        return self._slots[dtype]

    def _take(self, name: str, linear: NamedLinear, size: int) -> ir.Node:
        pool = self._input(name, linear.dtype, [POOL_ROWS, size])
        return ir.node("Gather", [pool, self._rows], {"axis": 0})

    def _input(self, name: str, dtype: ir.DataType, shape: Sequence[str | int]) -> ir.Value:
        value = ir.val(name, dtype, shape)
        self.graph.inputs.append(value)
        return value


def _pools(linear: NamedLinear) -> tuple[tuple[str, int], tuple[str, int]]:
    """The names of its pools, and the lengths of their rows."""
    return (a_name(linear.name), linear.shape.size_in), (b_name(linear.name), linear.shape.size_out)

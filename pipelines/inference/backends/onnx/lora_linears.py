"""Makes room for adapters behind the linear layers of an ONNX graph (`adapter_stacks`)."""

from __future__ import annotations

import onnx_ir as ir

from pipelines.adapters.linear_names import is_wanted
from pipelines.adapters.weights import LinearShape
from pipelines.inference.backends.adapter_stacks import SLOT, a_name, b_name
from pipelines.inference.backends.onnx.named_linears import NamedLinear, find_linears

F32 = ir.DataType.FLOAT
RANK = "adapters_rank"
"""The one size that all inputs for adapters share, the sum of the ranks."""


def add_lora(graph: ir.Graph, targets: frozenset[str], by_text: bool = False) -> dict[str, LinearShape]:
    """Add inputs for the adapters of all linear layers that `targets` name, or of all; return these linear
    layers.

    `by_text`: the graph reads whole texts side by side.
    """
    linears = [linear for linear in find_linears(graph) if is_wanted(linear.name, targets)]
    if linears:
        slot = ir.val(SLOT, F32, ["adapters_texts", 1, RANK] if by_text else ["adapters_tokens", RANK])
        graph.inputs.append(slot)
        for number, linear in enumerate(linears):
            _add_behind(graph, linear, slot, number)
    return {linear.name: linear.shape for linear in linears}


def _add_behind(graph: ir.Graph, linear: NamedLinear, slot: ir.Value, number: int) -> None:
    a = new_input(graph, a_name(linear.name), [linear.shape.size_in, RANK])
    b = new_input(graph, b_name(linear.name), [RANK, linear.shape.size_out])
    rows = cast_to(F32, linear.rows, linear.dtype)
    low = ir.node("MatMul", [rows[0].outputs[0] if rows else linear.rows, a])
    own = ir.node("Mul", [*low.outputs, slot])
    more = ir.node("MatMul", [*own.outputs, b])
    cast = cast_to(linear.dtype, more.outputs[0], F32)
    total = ir.node("Add", [linear.out, *(cast[0] if cast else more).outputs])
    put_behind(graph, linear.out, [*rows, low, own, more, *cast, total], f"adapters.{number}")


def cast_to(wanted: ir.DataType, value: ir.Value, dtype: ir.DataType) -> list[ir.Node]:
    """The node that makes `value` of the type `dtype` one of another; none where it is of that."""
    return [] if dtype == wanted else [ir.node("Cast", [value], {"to": int(wanted)})]


def put_behind(graph: ir.Graph, out: ir.Value, nodes: list[ir.Node], prefix: str) -> None:
    """Insert nodes of which the last gives what all readers of `out` read instead."""
    total = nodes[-1].outputs[0]
    for place, node in enumerate(nodes):
        node.outputs[0].name = f"{prefix}.{place}"
    total.type, total.shape = out.type, out.shape
    producer = out.producer()
    assert producer is not None
    graph.insert_after(producer, nodes)
    for reader, place in list(out.uses()):
        if reader not in nodes:
            reader.replace_input_with(place, total)
    for place, output in enumerate(graph.outputs):
        if output is out:
            total.name, out.name = out.name, f"{prefix}.own"
            graph.outputs[place] = total


def new_input(graph: ir.Graph, name: str, shape: list[str | int]) -> ir.Value:
    """The input of this name: a module that the model calls twice is one linear layer."""
    found = next((each for each in graph.inputs if each.name == name), None)
    if found is None:
        found = ir.val(name, F32, shape)
        graph.inputs.append(found)
    return found

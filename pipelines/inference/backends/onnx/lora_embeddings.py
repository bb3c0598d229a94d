"""Makes room for adapters at the ends of a decoder in Braid's ONNX form: its embeddings and its head
(`adapter_stacks`).

The ends are found by their place in the graph, as the weight of both is one in many models.
"""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from pipelines.adapters.linear_names import EMBEDDINGS, HEAD
from pipelines.adapters.weights import LinearShape
from pipelines.inference.backends.adapter_stacks import a_name, b_name, keep_name, slot_name
from pipelines.inference.backends.onnx.head import nodes_from_head
from pipelines.inference.backends.onnx.lora_linears import F32, cast_to, new_input, put_behind
from pipelines.inference.backends.onnx.named_linears import NamedLinear, linear_of
from pipelines.onnx_format.decoder_format import DOMAIN, GGUF_ROWS, INPUT_IDS


def add_lora_embeddings(graph: ir.Graph, targets: frozenset[str]) -> dict[str, LinearShape]:
    """Add inputs for adapters of the ends that `targets` name and the graph has; return these."""
    found = {EMBEDDINGS: _embeddings, HEAD: _head}
    ends = [end for name, find in found.items() if name in targets and (end := find(graph)) is not None]
    for end in ends:
        _add_behind(graph, end)
    return {end.name: end.shape for end in ends}


def _embeddings(graph: ir.Graph) -> NamedLinear | None:
    """What looks up the token ids, its `rows`; None where several tables are looked up."""
    (ids,) = (value for value in graph.inputs if value.name == INPUT_IDS)
    for node in ids.consumers():
        if (node.domain, node.op_type) == (DOMAIN, GGUF_ROWS):
            return _of_blocks(node, ids)
    tables = [
        (node.outputs[0], table.dtype, table.shape.numpy())
        for node in ids.consumers()
        if node.op_type == "Gather"
        and node.inputs[1] is ids
        and (table := node.inputs[0]) is not None
        and table.shape is not None
        and table.shape.is_static()
    ]
    blocks = [
        table for table in tables if len(table[2]) == 3
    ]  # of a GGUF file: codes, scales and least weights
    tables_found = [table for table in blocks if table[2][2] > 1] or [
        table for table in tables if len(table[2]) == 2
    ]
    if len(tables_found) != 1:
        return None
    ((out, dtype, (vocabulary, *sizes)),) = tables_found
    out, dtype = (_dequantized(out), F32) if blocks else _widened(out, out.dtype or dtype)
    return (
        None
        if dtype is None
        else NamedLinear(EMBEDDINGS, ids, out, LinearShape(vocabulary, prod(sizes)), dtype)
    )


def _of_blocks(node: ir.Node, ids: ir.Value) -> NamedLinear:
    """A table whose rows are blocks as in GGUF files."""
    table = node.inputs[1]
    assert table is not None, "it has two inputs"
    assert table.shape is not None, "as it was written"
    shape = LinearShape(int(table.shape.numpy()[0]), node.attributes["K"].as_int())
    return NamedLinear(EMBEDDINGS, ids, node.outputs[0], shape, F32)


def _widened(rows: ir.Value, dtype: ir.DataType | None) -> tuple[ir.Value, ir.DataType | None]:
    """The rows and their type where they are read: a table of half precision is widened behind it."""
    readers = rows.consumers()
    is_widened = len(readers) == 1 and readers[0].op_type == "Cast"
    if is_widened and readers[0].attributes["to"].as_int() == int(F32):
        return readers[0].outputs[0], F32
    return rows, dtype


def _dequantized(codes: ir.Value) -> ir.Value:
    """The rows that codes in blocks become: where they lose their blocks."""
    value = codes
    while (producer := value.producer()) is None or producer.op_type != "Reshape":
        (reader,) = value.consumers()
        value = reader.outputs[0]
    return value


def _head(graph: ir.Graph) -> NamedLinear | None:
    """The linear layer that gives the logits, behind which each row is on its own; `out` has sampled rows
    only.
    """
    nodes = nodes_from_head(graph)
    return linear_of(nodes[0], HEAD) if nodes else None


def _add_behind(graph: ir.Graph, end: NamedLinear) -> None:
    a = new_input(graph, a_name(end.name), [end.shape.size_in, f"{end.name}_rank"])
    b = new_input(graph, b_name(end.name), [f"{end.name}_rank", end.shape.size_out])
    slot = new_input(graph, slot_name(end.name), [f"{end.name}_rows", f"{end.name}_rank"])
    keep = new_input(graph, keep_name(end.name), [f"{end.name}_rows", 1])
    if end.name == EMBEDDINGS:
        low = [ir.node("Gather", [a, end.rows], {"axis": 0})]
    else:
        cast = cast_to(F32, end.rows, end.dtype)
        low = [*cast, ir.node("MatMul", [cast[0].outputs[0] if cast else end.rows, a])]
    own = ir.node("Mul", [low[-1].outputs[0], slot])
    more = ir.node("MatMul", [own.outputs[0], b])
    wide = cast_to(F32, end.out, end.dtype)
    rest = ir.node("Mul", [wide[0].outputs[0] if wide else end.out, keep])
    total = ir.node("Add", [rest.outputs[0], more.outputs[0]])
    narrow = cast_to(end.dtype, total.outputs[0], F32)
    put_behind(graph, end.out, [*low, own, more, *wide, rest, total, *narrow], f"adapters.{end.name}")

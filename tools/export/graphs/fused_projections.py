"""Fuses linear layers of the same input: queries, keys and values of a layer, and gate and up of its MLP.

One linear layer reads the same weights in fewer calls; an engine that rounds activations rounds them once.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import onnx_ir as ir

from pipelines.adapters.linear_names import PARTS, last_name, named_linear
from pipelines.onnx_format.decoder_format import AND
from tools.export.graphs.parameters import parameter
from tools.export.graphs.quantizing import DOMAIN, OPERATOR, remove_unused

RANKS = {("", "MatMul"): 2, (DOMAIN, OPERATOR): 3}
"""Operators of linear layers → the rank of their weight."""


def fuse_projections(model: ir.Model) -> ir.Model:
    """Join neighbours of those that are named in `PARTS` where they are alike: of one type, in equal blocks.

    A joined weight is named after the first, with AND, so that adapters find the parts; `model` is changed.
    """
    linears = {name: node for node in model.graph if (name := _name(node)) is not None}
    for parts in PARTS.values():
        for first in [name for name in linears if last_name(name) == parts[0]]:
            before = first.removesuffix(parts[0])
            whole = [linears[before + part] for part in parts if before + part in linears]
            for _, alike in groupby(whole, _kind):
                _join(model.graph, list(alike))
    remove_unused(model.graph)
    return model


def _name(node: ir.Node) -> str | None:
    """The name of a linear layer by weights that nothing else reads."""
    rank = RANKS.get((node.domain, node.op_type))
    weights = _weights(node)
    if rank is None or len(weights[0].shape or ()) != rank:
        return None
    if not all(each.is_initializer() and len(each.uses()) == 1 for each in weights):
        return None
    return named_linear(weights[0].name or "", "")


def _weights(node: ir.Node) -> list[ir.Value]:
    return [value for value in node.inputs[1:] if value is not None]


def _kind(node: ir.Node) -> tuple[object, ...]:
    """What linear layers that can be fused have in common."""
    settings = sorted((name, value.value) for name, value in node.attributes.items() if name != "N")
    shapes = [list(_values(each).shape.numpy()) for each in _weights(node)]
    for shape in shapes:
        del shape[_outer(node)]
    types = [each.dtype for each in _weights(node)]
    return (node.inputs[0], node.op_type, settings, types, shapes)


def _outer(node: ir.Node) -> int:
    """The axis of its weights along which the layer's outputs are."""
    return 1 if node.op_type == "MatMul" else 0


def _values(weight: ir.Value) -> ir.TensorProtocol:
    assert weight.const_value is not None, "an initializer has a value"
    return weight.const_value


def _join(graph: ir.Graph, nodes: list[ir.Node]) -> None:
    """Replace several linear layers by one, which a Split takes apart again."""
    if len(nodes) == 1:
        return
    first, old = nodes[0], [node.outputs[0] for node in nodes]
    sizes = [_values(_weights(node)[0]).shape.numpy()[_outer(node)] for node in nodes]
    weights = []
    for alike in zip(*map(_weights, nodes), strict=True):
        values = np.concatenate([_values(linear).numpy() for linear in alike], axis=_outer(first))
        weights.append(parameter(graph, _and(alike[0].name), values))
    attributes = {name: value.value for name, value in first.attributes.items()}
    if "N" in attributes:
        attributes["N"] = sum(sizes)
    inputs = [first.inputs[0], *weights]
    linear = ir.node(first.op_type, inputs, attributes, domain=first.domain, name=_and(first.name))
    (out,) = linear.outputs
    out.name, out.type = f"{linear.name}.rows", old[0].type
    lengths = parameter(graph, f"{linear.name}.sizes", np.array(sizes, np.int64))
    name = f"{linear.name}.split"
    split = ir.node("Split", [out, lengths], {"axis": -1}, num_outputs=len(nodes), name=name)
    for part, output in zip(split.outputs, old, strict=True):
        part.name, part.type, part.shape = output.name, output.type, output.shape
    ir.convenience.replace_nodes_and_values(graph, first, nodes, [linear, split], old, split.outputs)


def _and(name: str | None) -> str:
    """`layers.0.self_attn.q_proj.and.weight` of `layers.0.self_attn.q_proj.weight`."""
    before, dot, behind = (name or "").partition(".weight")
    return f"{before}{AND}{dot}{behind}"

"""Simplifies a traced graph to fewer and cheaper nodes, with the names of the model's weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common
from onnxscript.optimizer import optimize_ir
from onnxscript.rewriter import RewriterContext, pattern, rewrite
from onnxscript.rewriter.rules.fusion._rms_normalization import fuse_rms_normalization
from onnxscript.rewriter.rules.fusion._rotary_embedding import fuse_partial_rotary_embedding

from pipelines.onnx_format.decoder_format import IR_VERSION
from tools.export.graphs.parameters import parameter

PRODUCER = "braid"
HALVES_ALIKE = ("Cos", "Sin", "Cast", "Identity", "Mul")
"""Operators that preserve the equality of the two halves of a value; Mul by a number."""


def simplify(model: ir.Model, name: str = "decoder", is_packed: bool = True) -> ir.Model:
    """Fold, fuse and clean up `model`, which is changed; transposed weights are computed when they are
    written.

    `is_packed`: texts lie behind one another in one row. What only holds there is not done to others: where
    texts lie side by side they share rotary embeddings, of which the operator wants some for each.
    """
    fold_transposed_weights(model.graph)
    optimize_ir(model)
    fuse_rms_normalization(model)
    if is_packed:
        model = rewrite(model, RULES)
        fuse_partial_rotary_embedding(model)
    _cast_to_scales(model.graph)
    for tidy in (
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.IdentityEliminationPass(),
        common.RemoveUnusedNodesPass(),
        common.RemoveUnusedOpsetsPass(),
        common.ClearMetadataAndDocStringPass(),
    ):
        model = tidy(model).model
    _drop_exporter_metadata(model)
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version = PRODUCER, None
    model.graph.name = name
    return model


def _drop_exporter_metadata(model: ir.Model) -> None:
    """Delete the exporter's metadata of values: their origin in torch."""
    graph = model.graph
    values = [*graph.inputs, *graph.initializers.values(), *(each for node in graph for each in node.outputs)]
    for noted in (model, graph, *values):
        noted.metadata_props.clear()


def fold_transposed_weights(graph: ir.Graph) -> None:
    """Store a weight as MatMul reads it; a weight that is also an embedding is left for `TiedHead`."""
    for node in list(graph):
        weight = node.inputs[0] if _turns_axes(node) else None
        if weight is None or not weight.is_initializer() or len(weight.shape or ()) != 2:
            continue
        if all(_turns_axes(user) for user in weight.consumers()):
            name = f"{weight.name}.T"  # registered already where layers share the weight
            stored = graph.initializers.get(name) or parameter(graph, name, _transposed(weight))
            node.outputs[0].replace_all_uses_with(stored)
            graph.remove(node, safe=True)
        if not weight.uses():
            graph.initializers.pop(weight.name)


def _turns_axes(node: ir.Node) -> bool:
    """Whether this is a Transpose of two axes, and not one that leaves them, as torch writes some."""
    perm = node.attributes.get("perm")
    return node.op_type == "Transpose" and (perm is None or list(perm.as_ints()) == [1, 0])


def _transposed(weight: ir.Value) -> ir.TensorProtocol:
    """The weight's transpose, computed at each read and not cached."""
    tensor = weight.const_value
    make: Callable[[], ir.TensorProtocol] = lambda: ir.tensor(np.ascontiguousarray(tensor.numpy().T))  # noqa: E731
    return ir.LazyTensor(make, tensor.dtype, ir.Shape(reversed(tensor.shape)), name=f"{weight.name}.T")


def _cast_to_scales(graph: ir.Graph) -> None:
    """Cast the input of a norm to the type of its scale, as engines require."""
    for node in list(graph):
        rows, scale = node.inputs[:2] if node.op_type == "RMSNormalization" else (None, None)
        if rows is None or scale is None or rows.dtype == scale.dtype:
            continue
        cast = ir.node("Cast", [rows], {"to": scale.dtype})
        cast.outputs[0].type, cast.outputs[0].shape = ir.TensorType(scale.dtype), rows.shape
        graph.insert_before(node, cast)
        node.replace_input_with(0, cast.outputs[0])


class GatheredRows(pattern.RewriteRuleClassBase):
    """Rows taken by GatherND between two Transposes → one Gather."""

    def pattern(self, op: RewriterContext, rows: ir.Value, indices: ir.Value) -> ir.Value:
        first = op.Transpose(rows, perm=[1, 0, 2])
        taken = op.GatherND(first, op.Unsqueeze(indices, [-1]), _allow_other_attributes=True)
        return op.Transpose(taken, perm=[1, 0, 2])

    def rewrite(self, op: RewriterContext, rows: ir.Value, indices: ir.Value) -> ir.Value:
        return op.Gather(rows, indices, axis=1)


class OuterProduct(pattern.RewriteRuleClassBase):
    """MatMul over an inner dimension of one → Mul: exact where an engine would multiply in TF32."""

    def pattern(self, op: RewriterContext, left: ir.Value, right: ir.Value) -> ir.Value:
        return op.MatMul(left, right)

    def check(self, context: RewriterContext, left: ir.Value, right: ir.Value) -> bool:
        ranked = len(left.shape or ()) > 1 and len(right.shape or ()) > 1
        return ranked and left.shape[-1] == right.shape[-2] == 1

    def rewrite(self, op: RewriterContext, left: ir.Value, right: ir.Value) -> ir.Value:
        return op.Mul(left, right)


class FirstOfOne(pattern.RewriteRuleClassBase):
    """Gather of the only entry of the first dimension → Reshape, which copies nothing."""

    def pattern(self, op: RewriterContext, x: ir.Value) -> ir.Value:
        return op.Gather(x, 0, axis=0)

    def check(self, context: RewriterContext, x: ir.Value) -> bool:
        return len(x.shape or ()) == 3 and x.shape[0] == 1 and isinstance(x.shape[2], int)

    def rewrite(self, op: RewriterContext, x: ir.Value) -> ir.Value:
        return op.Reshape(x, _ints(op, -1, x.shape[2]))


class TiedHead(pattern.RewriteRuleClassBase):
    """MatMul with the embedding's transpose → Gemm, so that the weight is stored once."""

    def pattern(self, op: RewriterContext, rows: ir.Value, weight: ir.Value) -> ir.Value:
        return op.MatMul(rows, op.Transpose(weight, perm=[1, 0]))

    def check(self, context: RewriterContext, rows: ir.Value, weight: ir.Value) -> bool:
        return weight.is_initializer() and len(rows.shape or ()) == 3 and rows.shape[0] == 1

    def rewrite(self, op: RewriterContext, rows: ir.Value, weight: ir.Value) -> ir.Value:
        vocab, width = weight.shape
        scores = op.Gemm(op.Reshape(rows, _ints(op, -1, width)), weight, transB=1)
        return op.Reshape(scores, _ints(op, 1, -1, vocab))


class Rotary(pattern.RewriteRuleClassBase):
    """Rotary embedding whose cosines were cast or scaled on the way → the operator of opset 23."""

    def __init__(self) -> None:
        super().__init__(remove_nodes=False)  # layers share the cosines

    def pattern(
        self,
        op: RewriterContext,
        x: ir.Value,
        cos: ir.Value,
        sin: ir.Value,
        middle: ir.Value,
        after: ir.Value,
        end: ir.Value,
    ) -> ir.Value:
        first = op.Slice(x, [0], middle, [3], [1])
        second = op.Slice(x, after, end, [3], [1])
        rotated = op.Concat(op.Neg(second), first, axis=-1)
        return x * op.Unsqueeze(cos, [1]) + rotated * op.Unsqueeze(sin, [1])

    def check(
        self,
        context: RewriterContext,
        x: ir.Value,
        cos: ir.Value,
        sin: ir.Value,
        middle: ir.Value,
        after: ir.Value,
        **_: ir.Value,
    ) -> bool:
        if len(x.shape or ()) != 4 or not all(isinstance(x.shape[axis], int) for axis in (1, 3)):
            return False
        half = x.shape[3] // 2
        return _number(middle) == _number(after) == half and _halves_alike(cos) and _halves_alike(sin)

    def rewrite(
        self, op: RewriterContext, x: ir.Value, cos: ir.Value, sin: ir.Value, **_: ir.Value
    ) -> ir.Value:
        where = (_ints(op, 0), _ints(op, x.shape[3] // 2), _ints(op, 2), _ints(op, 1))
        halves = (op.Slice(each, *where) for each in (cos, sin))
        return op.RotaryEmbedding(x, *halves, interleaved=0, num_heads=x.shape[1])


def _halves_alike(value: ir.Value | None) -> bool:
    """Whether the last dimension repeats one half."""
    node = value.producer() if value is not None else None
    while node is not None and node.op_type in HALVES_ALIKE:
        if node.op_type == "Mul" and _number(node.inputs[1]) is None:
            return False
        node = node.inputs[0].producer()
    return node is not None and node.op_type == "Concat" and list(node.inputs) == [node.inputs[0]] * 2


def _number(value: ir.Value | None) -> float | None:
    """The one number that a constant holds."""
    constant = ir.convenience.get_const_tensor(value) if value is not None else None
    return constant.numpy().item() if constant is not None and constant.size == 1 else None


def _ints(op: RewriterContext, *numbers: int) -> ir.Value:
    return op.Constant(value_ints=list(numbers))


RULES = pattern.RewriteRuleSet(
    [rule.rule() for rule in (GatheredRows, OuterProduct, FirstOfOne, TiedHead, Rotary)]
)

"""Lowers the recurrent nodes of Braid's format to operators of ONNX Runtime over states of whole sequences.

A call of B sequences reads `state.{i}`, float32[B, …], their states before it, and gives `state_out.{i}`,
those after their last token: [kernel, channels] of a short convolution, the last rows, the newest one last;
[heads, key_size, value_size] of the others.  Padding changes no state: it decays by 1 and adds nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.inference.backends.onnx.graph_rewrites import CONTRIB
from pipelines.inference.backends.onnx.recurrent import RecurrentNode
from pipelines.inference.backends.onnxruntime.graph_writer import FARTHEST, GraphWriter
from pipelines.onnx_format.recurrent_format import DELTA_NET, EPSILON, MAMBA2, SHORT_CONV

STATE, STATE_OUT = "state.{}", "state_out.{}"
LINEAR_ATTENTION = "LinearAttention"
"""ONNX Runtime's operator for states that decay and add the products of keys and values."""
FLOAT = ir.DataType.FLOAT


class Padding(NamedTuple):
    """The places of B sequences of at most S new tokens, packed and padded."""

    padded: ir.Value
    """int64[B, S]: the packed token at that place; any token in padding."""
    packed: ir.Value
    """int64[T]: the place of each token in [B * S]."""
    lengths: ir.Value
    """int64[B]: new tokens."""
    is_token: ir.Value
    """bool[B, S]."""


def state_shape(node: RecurrentNode) -> list[int]:
    """The shape of one sequence's state in this lowering."""
    return node.state_shape[:-2] + node.state_shape[:-3:-1]


def lower_recurrent(writer: GraphWriter, nodes: list[RecurrentNode], padding: Padding) -> None:
    """Replace the nodes of `writer`'s graph."""
    for node in nodes:
        writer.replace(node.node, _NodeWriter(writer, node, padding).mixed())
    if nodes:
        writer.graph.opset_imports.setdefault(CONTRIB, 1)


class _NodeWriter:
    """The nodes in place of one."""

    def __init__(self, writer: GraphWriter, node: RecurrentNode, padding: Padding) -> None:
        self._writer, self._op, self._ints = writer, writer.op, writer.ints
        self._node, self._sizes, self._padding = node, node.sizes, padding
        shape: list[str | int] = ["batch", *state_shape(node)]
        self._before, self._after = (
            ir.val(name.format(node.number), FLOAT, shape) for name in (STATE, STATE_OUT)
        )
        writer.graph.inputs.append(self._before)
        writer.graph.outputs.append(self._after)
        self._inputs = dict(zip(node.kind.inputs, node.node.inputs, strict=False))

    def mixed(self) -> ir.Value:
        """[1, T, …] of all tokens."""
        kinds = {SHORT_CONV: self._convolved, DELTA_NET: self._delta_net, MAMBA2: self._mamba2}
        rows = kinds[self._node.node.op_type]()
        first = self._node.node.inputs[0]
        assert first is not None
        shape = self._node.state_shape[:-1]  # without keys, or the kernel
        flat = self._op("Reshape", rows, self._ints(-1, math.prod(shape)))
        shaped = self._op(
            "Reshape", self._op("Gather", flat, self._padding.packed), self._ints(1, -1, *shape)
        )
        return self._op("Cast", shaped, to=first.dtype or FLOAT)

    def _convolved(self) -> ir.Value:
        """[B, S, channels], a sum of shifted rows; the state is what lies before the first one."""
        op, kernel, constants = self._op, self._sizes["kernel"], self._node.constants
        rows = op("Concat", self._before, self._rows("rows"), axis=1)
        last = op("Add", op("Unsqueeze", self._padding.lengths, self._ints(1)), self._ints(*range(kernel)))
        places = op("Unsqueeze", last, self._ints(2))
        self._op("GatherND", rows, places, batch_dims=1, output=self._after)
        weight = constants["weight"].const_value
        assert weight is not None, "as it was checked"
        parts = []
        for place, column in enumerate(weight.numpy()[:, 0].T):
            end = place + 1 - kernel or FARTHEST
            shifted = op("Slice", rows, self._ints(place + 1), self._ints(end), self._ints(1))
            parts.append(op("Mul", shifted, self._constant(f"weight.{place}", column)))
        if (bias := constants.get("bias")) is not None:
            parts.append(bias)
        return op("Sum", *parts)

    def _delta_net(self) -> ir.Value:
        """[B, S, value_heads · value_size]."""
        epsilon = self._node.node.attributes[EPSILON].as_float()
        query, key = (self._repeated(self._unit(self._rows(name), epsilon)) for name in ("query", "key"))
        decay, beta = (self._of_tokens(self._rows(name)) for name in ("decay", "beta"))
        value = self._joined(self._rows("value"))
        scale = self._sizes["key_size"] ** -0.5
        return self._attention("gated_delta", [query, key, value], [decay, beta], scale)

    def _mamba2(self) -> ir.Value:
        """[B, S, heads · head_size]."""
        op, steps = self._op, self._of_tokens(self._rows("steps"))
        added = op("Mul", self._rows("values"), op("Unsqueeze", steps, self._ints(3)))
        written, read = (self._repeated(self._rows(name)) for name in ("written", "read"))
        decay = op("Mul", steps, self._node.constants["decay"])
        return self._attention("gated", [read, written, self._joined(added)], [decay], 1.0)

    def _attention(self, rule: str, rows: list[ir.Value], gates: list[ir.Value], scale: float) -> ir.Value:
        heads = self._node.state_shape[0]
        sizes: dict[str, int | str | float] = {
            "q_num_heads": heads,
            "kv_num_heads": heads,
            "update_rule": rule,
            "scale": float(scale),
        }
        attended = ir.val(None, FLOAT)
        inputs = [*rows, self._before, *gates]
        node = ir.node(LINEAR_ATTENTION, inputs, sizes, domain=CONTRIB, outputs=[attended, self._after])
        return self._writer.add(node)

    def _rows(self, name: str) -> ir.Value:
        """float32[B, S, …] of an input [1, T, …]."""
        value = self._inputs[name]
        assert value is not None
        flat = self._op("Squeeze", self._op("Cast", value, to=FLOAT), self._ints(0))
        return self._op("Gather", flat, self._padding.padded)

    def _of_tokens(self, rows: ir.Value) -> ir.Value:
        """`rows` [B, S, heads] without those of padding, which are 0."""
        real = self._op("Unsqueeze", self._op("Cast", self._padding.is_token, to=FLOAT), self._ints(2))
        return self._op("Mul", rows, real)

    def _repeated(self, rows: ir.Value) -> ir.Value:
        """[B, S, heads · size] of rows [B, S, groups, size]: a row of a group for each of its heads."""
        assert self._node.kind.repeated is not None
        heads, groups = (self._sizes[name] for name in self._node.kind.repeated)
        if heads != groups:
            apart = self._op("Unsqueeze", rows, self._ints(3))
            rows = self._op("Expand", apart, self._ints(1, 1, 1, heads // groups, 1))
        return self._joined(rows)

    def _joined(self, rows: ir.Value) -> ir.Value:
        """[B, S, numbers]."""
        return self._op("Reshape", rows, self._ints(0, 0, -1))

    def _unit(self, rows: ir.Value, epsilon: float) -> ir.Value:
        squares = self._op("ReduceSumSquare", rows, self._ints(-1), keepdims=1)
        added = self._op("Add", squares, self._constant("epsilon", np.array(epsilon, np.float32)))
        return self._op("Div", rows, self._op("Sqrt", added))

    def _constant(self, name: str, array: np.ndarray) -> ir.Value:
        return self._writer.constant(f"recurrent.{self._node.number}.{name}", array.astype(np.float32))

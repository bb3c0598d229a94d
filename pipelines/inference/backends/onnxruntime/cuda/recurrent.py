"""Lowers the recurrent nodes of Braid's format to operators that launch Braid's kernels over rows of states.

`ops/cpu/state_operators.hpp` has the operators, `ops/cuda/recurrent.cu` the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ops.cuda.recurrent import WIDEST
from pipelines.inference.backends.onnx.recurrent import RecurrentNode
from pipelines.inference.backends.onnxruntime.graph_writer import GraphWriter
from pipelines.inference.backends.onnxruntime.step_input_names import STATE_KERNELS, STATE_STEPS, state_name
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.recurrent_format import EPSILON, NUMBER, SHORT_CONV

STATES_DOMAIN = "braid.cuda"
FLOAT, INT32 = ir.DataType.FLOAT, ir.DataType.INT32


def check_states(nodes: list[RecurrentNode]) -> None:
    """Raise `ModelError` for a state whose rows are longer than the kernels take."""
    for node in nodes:
        size = node.state_shape[-1]
        if node.node.op_type != SHORT_CONV and size > WIDEST:
            raise ModelError(
                f"{node.node.op_type} of state {node.number} has states with rows of {size} numbers; on cuda "
                f"they have at most {WIDEST}.  Write `device: cpu`."
            )


def state_shapes(nodes: list[RecurrentNode]) -> tuple[tuple[int, ...], ...]:
    """The shape of one sequence's state of each node."""
    return tuple(tuple(node.state_shape) for node in nodes)


def lower_states(writer: GraphWriter, nodes: list[RecurrentNode]) -> None:
    """Replace the nodes of `writer`'s graph.

    The graph gets inputs: state.{i} float32[num_rows, …], written in place · state_steps int32[B, W], the
    records of `ops.cuda.recurrent` · state_kernels int32[1] in CPU memory.
    """
    if not nodes:
        return
    graph = writer.graph
    shared = [ir.val(STATE_STEPS, INT32, ["batch", "width"]), ir.val(STATE_KERNELS, INT32, [1])]
    graph.inputs.extend(shared)
    for node in nodes:
        state = ir.val(state_name(node.number), FLOAT, ["num_rows", *node.state_shape])
        graph.inputs.append(state)
        writer.replace(node.node, _mixed(writer, node, [state, *shared]))
    graph.opset_imports[STATES_DOMAIN] = 1


def _mixed(writer: GraphWriter, node: RecurrentNode, states: list[ir.Value]) -> ir.Value:
    """The node in the operators' domain, and what makes its result one of the inputs' type."""
    tokens = node.node.inputs[: len(node.kind.inputs)]
    constants = [node.constants.get(name) or _zeros(writer, node, name) for name in node.kind.constants]
    sizes: dict[str, Any] = {name: size for name, size in node.sizes.items() if name != NUMBER}
    if EPSILON in node.kind.floats:
        sizes[EPSILON] = node.node.attributes[EPSILON].as_float()
    inputs = [*tokens, *constants, *states]
    mixed = writer.op(node.node.op_type, *inputs, domain=STATES_DOMAIN, **sizes)
    first = tokens[0]
    assert first is not None
    element = first.dtype or node.node.outputs[0].dtype or FLOAT
    return mixed if element == FLOAT else writer.op("Cast", mixed, to=element)


def _zeros(writer: GraphWriter, node: RecurrentNode, name: str) -> ir.Value:
    """What stands for a constant that is left out."""
    return writer.constant(
        f"recurrent.{node.number}.{name}", np.zeros(node.shape(node.kind.constants[name]), np.float32)
    )

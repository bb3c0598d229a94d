"""OpenVINO's paged operators for the recurrent nodes of Braid's ONNX format.

They are in no operator set.  The library of the CPU device registers them as extensions, for graphs that it
reads back, and a node factory takes extensions from any library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import openvino as ov
from openvino import opset13 as ops
from openvino.utils.node_factory import NodeFactory

from pipelines.inference.backends.onnx.recurrent import RecurrentNode, find_recurrent
from pipelines.inference.backends.openvino.model.float_sums import use_float32
from pipelines.inference.backends.openvino.model.recurrent_kernels import KEY_EPSILONS, NORMS_KEYS
from pipelines.inference.contracts.device_errors import Unsupported
from pipelines.onnx_format.recurrent_format import DELTA_NET, EPSILON, KINDS, MAMBA2, SHORT_CONV

BEGINS = "subsequence_begins"
STATE_SHAPES = {
    "la.block_indices": "num_states_used",
    "la.block_indices_begins": "num_seqs_plus_1",
    "la.past_lens": "num_seqs",
    "la.cache_interval": "num_seqs",
}
"""int32 inputs that the graph gains, in the order in which the operators take them behind BEGINS."""
TABLE = "recurrent_state_table.{}"
"""The input for the states of one node, float32[states, numbers of a state].  It has two axes, and a Reshape
behind it: a table that an operator reads itself is narrowed where the device computes in half precision.
"""
CONV, NET, SSM = "PagedCausalConv1D", "PagedGatedDeltaNet", "PagedSelectiveSSM"
OPERATORS = frozenset({CONV, NET, SSM})
ALSO_FLOAT32 = frozenset({"Convert", "Reshape"})
"""Nodes before those that stay in float32 with them."""
PLUGIN = "*openvino_intel_cpu_plugin*"

Inputs = Mapping[str, ov.Output]
"""The inputs of a node by name, float32, with tokens as their first axis."""


def declare_states(graph: ir.Graph) -> list[tuple[ir.Node, list[ir.Value]]]:
    """Add the inputs that the recurrent nodes of a graph need; returns the nodes, each with its own ones.

    Raises `ModelError`.
    """
    recurrent = find_recurrent(graph)
    if not recurrent:
        return []
    int32 = ir.DataType.INT32
    step = [ir.val(name, int32, [size]) for name, size in STATE_SHAPES.items()]
    tables = [_table(node) for node in recurrent]
    begins = next(value for value in graph.inputs if value.name == BEGINS)
    graph.inputs.extend([*step, *tables])
    return [(read.node, [table, begins, *step]) for read, table in zip(recurrent, tables, strict=True)]


def _table(node: RecurrentNode) -> ir.Value:
    size = math.prod(node.state_shape)
    return ir.val(TABLE.format(node.number), ir.DataType.FLOAT, ["num_states", size])


def compute_states_in_float32(model: ov.Model) -> None:
    """Let a device that computes in half precision neither store states nor sum them in it."""
    nodes = [node for node in model.get_ops() if node.get_type_name() in OPERATORS]
    around = [value.get_node() for node in nodes for value in node.input_values()]
    use_float32([*nodes, *(node for node in around if node.get_type_name() in ALSO_FLOAT32)], rounds=False)


def convert_short_conv(node: Any) -> list[ov.Output]:
    rows, weight, *bias = _own_inputs(node, SHORT_CONV)
    zeros = ops.constant(np.zeros(node.get_attribute("channels"), np.float32)).output(0)
    table, *paging = _paging(node, SHORT_CONV)
    inputs = [_of_tokens(rows), table, weight, *(bias or [zeros]), *paging]
    return _mixed(node, _create(CONV, inputs))


def convert_delta_net(node: Any) -> list[ov.Output]:
    query, key, value, decay, beta = map(_of_tokens, _own_inputs(node, DELTA_NET))
    table, *paging = _paging(node, DELTA_NET)
    norms = {NORMS_KEYS: True, **dict.fromkeys(KEY_EPSILONS, node.get_attribute(EPSILON))}
    return _mixed(node, _create(NET, [query, key, value, table, decay, beta, *paging], norms))


def convert_mamba2(node: Any) -> list[ov.Output]:
    values, steps, written, read, decay = _own_inputs(node, MAMBA2)
    rows = [_of_tokens(each) for each in (steps, written, values, read)]
    table, *paging = _paging(node, MAMBA2)
    return _mixed(node, _create(SSM, [decay, *rows, table, *paging]))


CONVERSIONS: dict[str, Callable[[Any], list[ov.Output]]] = {
    SHORT_CONV: convert_short_conv,
    DELTA_NET: convert_delta_net,
    MAMBA2: convert_mamba2,
}
NUM_PAGING = 2 + len(STATE_SHAPES)
"""Inputs that `declare_states` adds to a node."""


def _own_inputs(node: Any, kind: str) -> list[ov.Output]:
    count = node.get_input_size() - NUM_PAGING
    assert count >= len(KINDS[kind].inputs), "as the format says"
    return [node.get_input(number) for number in range(count)]


def _paging(node: Any, kind: str) -> list[ov.Output]:
    """The table, which is reshaped in place, and the inputs of a step."""
    count = node.get_input_size()
    table, *step = (node.get_input(number) for number in range(count - NUM_PAGING, count))
    shape = [-1, *(node.get_attribute(name) for name in KINDS[kind].state)]
    return [ops.reshape(table, ops.constant(shape), False).output(0), *step]


def _of_tokens(value: ov.Output) -> ov.Output:
    """[1, tokens, …] → float32[tokens, …], which a device may narrow again."""
    return ops.convert(ops.squeeze(value, ops.constant(np.array([0]))), "f32").output(0)


def _mixed(node: Any, rows: ov.Node) -> list[ov.Output]:
    dtype = node.get_input(0).get_element_type()
    outputs: list[ov.Output] = ops.unsqueeze(ops.convert(rows, dtype), ops.constant(np.array([0]))).outputs()
    return outputs


def _create(operator: str, inputs: list[ov.Output], attributes: Mapping[str, Any] | None = None) -> ov.Node:
    """A node of the CPU device.  Raises `Unsupported` where this version of it has another such operator."""
    wanted = dict(attributes or {})
    try:
        node = _factory().create(operator, inputs, wanted)
    except RuntimeError as error:
        raise Unsupported(
            f"OpenVINO {ov.__version__} has no {operator} as Braid needs it: {error}"
        ) from error
    known = node.get_attributes()
    if ignored := [name for name in wanted if name not in known]:  # it ignores names that it does not know
        raise Unsupported(f"OpenVINO {ov.__version__} has no {', '.join(ignored)} of {operator}.")
    return node


@cache
def _factory() -> NodeFactory:
    factory = NodeFactory()
    factory.add_extension(str(next((Path(ov.__file__).parent / "libs").glob(PLUGIN))))
    return factory

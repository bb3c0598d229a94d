"""Restricts the LM head to the sampled rows: a gather is inserted before the last matrix multiplication.

What is computed of these rows is computed in float32.  Of a decoder that is used as an encoder the head is
left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.float_sums import nodes_behind, use_float32
from pipelines.inference.contracts.device_errors import ModelError

LOGITS_INPUT = "logit_indices"
ROW_WISE = frozenset({"Add", "Convert", "Divide", "Multiply", "Reshape", "Subtract", "Tanh"})
"""Operators that exports put between head and result (bias, scale, softcap): each row on its own."""


def gather_logits(model: ov.Model) -> None:
    """Add the input `logit_indices`, int64[num_logits]; the output becomes float32[num_logits, ..., vocab].

    `model` is a paged decoder: tokens are its first axis.  The rows are gathered before the last MatMul, or,
    when an unknown operator follows it, as near to it as rows are independent of each other.
    """
    target = _last_row_wise(model.get_results()[0].input(0))
    rows = ops.parameter([-1], np.int64, name=LOGITS_INPUT)
    rows.output(0).set_names({LOGITS_INPUT})
    gathered = ops.gather(target.get_source_output(), rows, ops.constant(np.int64(0)))
    target.replace_source_output(gathered.output(0))
    model.add_parameters([rows])
    _give_float32(model)
    model.validate_nodes_and_infer_types()


def leave_out_head(model: ov.Model) -> None:
    """Give the gathered rows themselves, float32[num_logits, ..., size]: the states after the last layer.

    `model` has the input `logit_indices`.  Raises `ModelError` where something else than the head reads them.
    """
    gather = _gather(model)
    readers = [port.get_node().get_type_name() for port in gather.output(0).get_target_inputs()]
    if readers != ["MatMul"]:
        raise ModelError(f"its head is no single product behind the last layer: {', '.join(readers)}.")
    model.get_results()[0].input(0).replace_source_output(gather.output(0))
    _give_float32(model)
    model.validate_nodes_and_infer_types()


def compute_logits_in_float32(model: ov.Model, rounds: bool) -> None:
    """Let a device that computes in half precision, or that `rounds` activations to eight bits, do neither
    with the rows that are gathered for logits.  `model` has the input `logit_indices`.
    """
    use_float32(nodes_for_logits(model), rounds)


def nodes_for_logits(model: ov.Model) -> list[ov.Node]:
    """All that is computed of the rows that are gathered for logits."""
    return nodes_behind(_gather(model).output(0))


def compute_output_in_float32(model: ov.Model, rounds: bool) -> None:
    """The last linear layer of a model that gives, say, labels is treated alike; `model` has one output."""
    ports = list(_ports_to_product(model.get_results()[0].input(0)))
    if ports[-1].get_node().get_type_name() == "MatMul":
        use_float32([port.get_node() for port in ports[1:]], rounds)


def _gather(model: ov.Model) -> ov.Node:
    """What takes the rows for logits."""
    (rows,) = (one for one in model.get_parameters() if one.get_friendly_name() == LOGITS_INPUT)
    (gather,) = (each.get_node() for each in rows.output(0).get_target_inputs())
    return gather


def _last_row_wise(port: ov.Input) -> ov.Input:
    """The input port before which rows can be dropped, searched from `port` back to the head."""
    return list(_ports_to_product(port))[-1]


def _ports_to_product(port: ov.Input) -> Iterator[ov.Input]:
    """`port` and the input ports before it, back to the rows of the last linear layer or to where rows depend
    on one another.
    """
    yield port
    while port.get_node().get_type_name() != "MatMul":
        node = port.get_source_output().get_node()
        activations = [port for port in node.inputs() if port.get_partial_shape().is_dynamic]
        if len(activations) != 1 or node.get_type_name() not in ROW_WISE | {"MatMul"}:
            return
        (port,) = activations
        yield port


def _give_float32(model: ov.Model) -> None:
    port = model.get_results()[0].input(0)
    if port.get_element_type() != ov.Type.f32:
        port.replace_source_output(ops.convert(port.get_source_output(), "f32").output(0))

"""Makes room for adapters at the ends of a paged OpenVINO model: its embeddings and its head
(`adapter_stacks`).

The ends are found by their place in the model, as weights and nodes have other names in each family.
"""

from __future__ import annotations

import openvino as ov
from openvino import opset13 as ops

from pipelines.adapters.linear_names import EMBEDDINGS, HEAD
from pipelines.adapters.weights import LinearShape
from pipelines.inference.backends.adapter_stacks import a_name, b_name, keep_name, slot_name
from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT
from pipelines.inference.backends.openvino.model.lora_linears import (
    has_weight,
    linear_shape,
    new_input,
    shape_as,
    through_a,
)
from pipelines.onnx_format.decoder_format import INPUT_IDS

PASSED_ON = frozenset({"Convert", "Reshape", "Squeeze", "Unsqueeze"})
"""Between the input of token ids and the table."""


def add_lora_embeddings(model: ov.Model, targets: frozenset[str]) -> dict[str, LinearShape]:
    """Add inputs for adapters of the ends that `targets` name and the model has; return these.

    `model` reads `input_ids` and `logit_indices`.
    """
    inputs = {parameter.get_friendly_name(): parameter for parameter in model.get_parameters()}
    ends = {EMBEDDINGS: (_lookups, INPUT_IDS), HEAD: (_linears, LOGITS_INPUT)}
    shapes = {}
    for end, (find, reads) in ends.items():
        nodes = find(inputs[reads].output(0)) if end in targets and reads in inputs else []
        if len(nodes) == 1:
            shapes[end] = _add_behind(model, nodes[0], end)
    model.validate_nodes_and_infer_types()
    return shapes


def _lookups(ids: ov.Output) -> list[ov.Node]:
    """The nodes that look up rows of a table by token ids."""
    lookups = []
    for port in ids.get_target_inputs():
        node = port.get_node()
        if node.get_type_name() in PASSED_ON and port.get_index() == 0:
            lookups += _lookups(node.output(0))
        elif node.get_type_name() == "Gather" and port.get_index() == 1:
            table = node.input_value(0).get_partial_shape()
            lookups += [node] if table.is_static and len(table) == 2 else []
    return lookups


def _linears(indices: ov.Output) -> list[ov.Node]:
    """The linear layers of the rows that are gathered for logits."""
    gathers = [port.get_node() for port in indices.get_target_inputs()]
    readers = [port.get_node() for each in gathers for port in each.output(0).get_target_inputs()]
    return [each for each in readers if each.get_type_name() == "MatMul" and has_weight(each)]


def _add_behind(model: ov.Model, node: ov.Node, end: str) -> LinearShape:
    if end == EMBEDDINGS:
        shape = LinearShape(*(size.get_length() for size in node.input_value(0).get_partial_shape()))
    else:
        shape = linear_shape(node)
    a, b = new_input(a_name(end), [shape.size_in, -1]), new_input(b_name(end), [-1, shape.size_out])
    slot, keep = new_input(slot_name(end), [-1, -1]), new_input(keep_name(end), [-1, 1])
    out = node.output(0)
    readers, dtype = list(out.get_target_inputs()), out.get_element_type()
    if end == EMBEDDINGS:
        ids = ops.reshape(node.input_value(1), ops.constant([-1]), False)
        low = ops.gather(a, ids, ops.constant(0))
    else:
        low = through_a(node, shape, a)
    more = ops.matmul(ops.multiply(low, slot), b, False, False)
    own = ops.reshape(ops.convert(out, "f32"), ops.constant([-1, shape.size_out]), False)
    total = ops.reshape(ops.add(ops.multiply(own, keep), more), shape_as(out, shape.size_out), False)
    for reader in readers:
        reader.replace_source_output(ops.convert(total, dtype.to_string()).output(0))
    model.add_parameters([a, b, slot, keep])
    return shape

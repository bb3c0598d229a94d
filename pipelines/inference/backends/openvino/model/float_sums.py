"""Lets a device compute the last linear layer of a model, and all behind it, in float32.

The rest may compute in half precision or with int8 matrix multiplications.  In bfloat16 a logit above 16 is a
multiple of 1/8, and likely tokens lie closer together than that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.lora_linears import has_weight

KEEP = "DisablePrecisionConversion_0"
"""Runtime attribute of nodes that a device does not narrow: with it they are computed in their own type."""
CARRIER = """<net name="carrier" version="11">
<layers><layer id="0" name="node" type="Parameter" version="opset1"><data shape="1" element_type="f32"/>
<rt_info><attribute name="DisablePrecisionConversion" version="0" value="dynamic:bf16,f16"/></rt_info>
<output><port id="0" precision="FP32"><dim>1</dim></port></output></layer>
<layer id="1" name="result" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>1</dim></port></input></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"""
"""A model with such a node: Python has no other way to the attribute."""
NO_ZERO = 6e-8
"""A zero point that changes no linear layer.  Where a zero point is a float, OpenVINO does not round what the
weight is multiplied by to eight bits; the smallest float16 but 0, which OpenVINO would leave out.
"""
INTEGERS = frozenset({"u8", "i8", "u4", "i4"})


def use_float32(nodes: list[ov.Node], rounds: bool) -> None:
    """Let these nodes compute in float32; where the device `rounds` what meets weights of few bits to eight
    bits, the linear layers among them do not.
    """
    carrier = ov.Core().read_model(CARRIER, ov.Tensor(np.zeros(1, np.uint8)))
    (keep,) = (parameter.get_rt_info()[KEEP] for parameter in carrier.get_parameters())
    for node in nodes:
        node.set_rt_info(keep, KEEP)
        if node.get_type_name() == "MatMul":
            if not has_weight(node):
                _align(node)
            elif rounds:
                _give_float_zero(node)


def nodes_behind(value: ov.Output) -> list[ov.Node]:
    """All that reads `value`, and what reads that."""
    nodes: dict[str, ov.Node] = {}
    waiting = [value]
    while waiting:
        for port in waiting.pop().get_target_inputs():
            node = port.get_node()
            if node.get_name() not in nodes:
                nodes[node.get_name()] = node
                waiting += node.outputs()
    return list(nodes.values())


def _align(node: ov.Node) -> None:
    """Give the second factor as many axes as the first: OpenVINO would make another linear layer, without
    KEEP.
    """
    first, second = (len(node.input_value(place).get_partial_shape()) for place in (0, 1))
    if second < first:
        axes = ops.constant(np.arange(first - second))
        node.input(1).replace_source_output(ops.unsqueeze(node.input_value(1), axes).output(0))


def _give_float_zero(node: ov.Node) -> None:
    """Make the zero point of a compressed weight a float, or give it one."""
    for node_above in _above(node.input_value(1)):
        source = node_above.input_value(0)
        if node_above.get_type_name() == "Subtract":
            zero = node_above.input_value(1)
            if (numbers := _integers(zero)) is not None:
                node_above.input(1).replace_source_output(
                    _floats(numbers.get_data(dtype=np.float32), zero.get_element_type())
                )
            return
        if node_above.get_type_name() == "Convert" and _integers(source) is not None:
            readers = node_above.output(0).get_target_inputs()
            zero = _floats(
                np.full((1,) * len(source.get_partial_shape()), NO_ZERO), node_above.get_element_type()
            )
            shifted = ops.subtract(node_above, zero)
            for reader in readers:
                reader.replace_source_output(shifted.output(0))
            return


def _above(value: ov.Output) -> Iterator[ov.Node]:
    """The nodes that make a weight, from the last to the first."""
    node = value.get_node()
    while node.get_input_size():
        yield node
        node = node.input_value(0).get_node()


def _integers(value: ov.Output) -> ov.op.Constant | None:
    """The constant of few bits that a value is or is converted from."""
    node = value.get_node()
    if node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    is_one = node.get_type_name() == "Constant" and node.get_element_type().to_string() in INTEGERS
    return node if is_one else None


def _floats(values: NDArray[np.floating], dtype: ov.Type) -> ov.Output:
    return ops.constant(values, dtype).output(0)

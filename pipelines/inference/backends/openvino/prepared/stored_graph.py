"""Reads a graph back that OpenVINO has exported, with what its export leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.block_linears import NOT_WIDENED
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.inference.backends.openvino.paging.paged_attention import CACHE_INPUT

Notes = Mapping[str, Mapping[str, int]]
"""The numbers in the runtime information of nodes, by the nodes' names."""
NARROW = ("u4", "i4", "f16", "bf16")
"""Types of constants that stay as they are: four bits are not widened to eight, a table of halves not to f32.
OpenVINO finds them by the nodes around them, which are others in an exported graph.
"""
ROTARY, ROTARY_SIZE = "RoPE", "config.rotary_ndims"


def read_stored(
    graph: bytes, weights: MappedFile, notes: Notes, kernels: LinearKernels | None = None
) -> ov.Model:
    """The model of an exported graph, whose constants are in `weights` and nodes perhaps of `kernels`.

    Raises RuntimeError.
    """
    core = ov.Core()
    if kernels is not None:
        kernels.library.add_to(core)
    core.get_property("CPU", "FULL_DEVICE_NAME")  # loads the device, and with it the operators of its own
    model = core.read_model(graph, ov.Tensor(weights.bytes, shared_memory=True))
    for node in model.get_ops():
        information = node.get_rt_info()
        for key, value in notes.get(node.get_friendly_name(), {}).items():
            information[key] = value
        if node.get_type_name() == "Constant" and node.get_element_type().to_string() in NARROW:
            information[NOT_WIDENED] = 1
    _free_cache_types(model)
    _widen_turns(model)
    model.validate_nodes_and_infer_types()
    return model


def _free_cache_types(model: ov.Model) -> None:
    """Let the device choose the type of the cache, as for a model's own files: what is a f16 input in the
    export would be widened to f32 in each step, and the widened copy written to, on a processor that computes
    in f32.
    """
    for parameter in model.get_parameters():
        if any(CACHE_INPUT.fullmatch(name) for name in parameter.output(0).get_names()):
            parameter.set_element_type(ov.Type.dynamic)


def numbers_of_nodes(model: ov.Model) -> dict[str, dict[str, int]]:
    """The `Notes` of a model."""
    notes: dict[str, dict[str, int]] = {}
    for node in model.get_ops():
        for key, value in node.get_rt_info().items():
            with suppress(TypeError):  # OpenVINO's own kinds, which it writes itself
                if isinstance(value.value, int):
                    notes.setdefault(node.get_friendly_name(), {})[key] = value.value
    return notes


def _widen_turns(model: ov.Model) -> None:
    """Give each rotary embedding cosines and sines for both halves of what it turns.

    Where they are for one half, as in ONNX, an export does not say so, and the second half would be read
    behind them.
    """
    wide: dict[ov.Output, ov.Output] = {}
    for node in model.get_ops():
        if node.get_type_name() != ROTARY:
            continue
        size = int(node.get_attributes()[ROTARY_SIZE])
        for port in node.inputs()[1:3]:
            half, shape = port.get_source_output(), port.get_partial_shape()
            if shape[-1].is_static and 2 * shape[-1].get_length() == size:
                if half not in wide:
                    wide[half] = ops.concat([half, half], -1).output(0)
                port.replace_source_output(wide[half])

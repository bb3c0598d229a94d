"""Writes a traced encoder as OpenVINO IR with compressed weights, optionally with int8 linear layers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

MODEL = "openvino_model.xml"
GROUP = 128  # of int4 weights that share a scale; a narrower layer takes the largest that fits
SMOOTHING = 0.6
"""SmoothQuant's alpha, the share of activation outliers moved to weights: it changes MiniLM's embeddings
less than nncf's default 0.95."""


def write_openvino(
    program: torch.export.ExportedProgram,
    output: str,
    folder: Path,
    weights: str,
    texts: Iterable[list[int]] | None = None,
) -> None:
    """Write openvino_model.xml and .bin to `folder`; `weights`: int8, int4, fp16 or fp32.

    `texts`: token ids of typical texts for calibration, if linear layers are to run in int8.
    """
    import openvino as ov

    model = ov.convert_model(program)
    for port, name in zip(model.inputs, program.graph_signature.user_inputs, strict=True):
        port.get_tensor().set_names({name})  # without those of what was inside
    model.outputs[0].get_tensor().set_names({output})
    _name_linears(model, program)
    if texts is not None:
        model = _quantized(model, [_feed(model, ids) for ids in texts])
    ov.save_model(compressed(model, weights), folder / MODEL, compress_to_fp16=weights == "fp16")


def _name_linears(model: Any, program: torch.export.ExportedProgram) -> None:
    """Name each linear layer after the module whose weight it has: adapters find it by that name."""
    parameters = program.graph_signature.inputs_to_parameters
    modules = {
        node.name: parameters[read.name].removesuffix(".weight")
        for node in program.graph.nodes
        for read in node.all_input_nodes
        if parameters.get(read.name, "").endswith(".weight")
    }
    for operator in model.get_ordered_ops():
        name = operator.get_friendly_name()
        module = modules.get(name.partition("/")[0])
        if operator.get_type_name() == "MatMul" and module is not None:
            operator.set_friendly_name(f"{module}/{name}")


def _quantized(model: Any, feeds: list[dict[str, np.ndarray]]) -> Any:
    """Quantize the linear layers to int8, except narrowing ones, which have activation outliers."""
    import nncf

    return nncf.quantize(
        model,
        nncf.Dataset(feeds),
        model_type=nncf.ModelType.TRANSFORMER,
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=len(feeds),
        ignored_scope=nncf.IgnoredScope(names=_narrowing(model)),
        advanced_parameters=nncf.AdvancedQuantizationParameters(
            smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=SMOOTHING)
        ),
    )


def _narrowing(model: Any) -> list[str]:
    """Linear layers with a weight that have fewer outputs than inputs."""
    names = []
    for node in model.get_ordered_ops():
        shape = node.input_value(1).get_partial_shape() if node.get_type_name() == "MatMul" else None
        if shape is None or shape.is_dynamic or len(shape) != 2:
            continue
        outer, inner = shape.to_shape() if node.get_attributes()["transpose_b"] else shape.to_shape()[::-1]
        if inner > outer:
            names.append(node.get_friendly_name())
    return names


def _feed(model: Any, ids: list[int]) -> dict[str, np.ndarray]:
    """The model's inputs for one text."""
    row = np.array([ids], np.int64)
    named = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
    return {port.any_name: named[port.any_name] for port in model.inputs}


def compressed(model: Any, weights: str) -> Any:
    import nncf

    modes = {"int8": nncf.CompressWeightsMode.INT8_ASYM, "int4": nncf.CompressWeightsMode.INT4_SYM}
    if weights not in modes:
        return model
    adjust = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
    grouped = {"group_size": GROUP, "advanced_parameters": adjust} if weights == "int4" else {}
    return nncf.compress_weights(model, mode=modes[weights], **grouped)

"""Models of one node of routed experts on OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import openvino as ov
from mixtures import Mixture

from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.openvino.decoder.expert_layers import ExpertLayers
from pipelines.inference.backends.openvino.decoder.from_onnx import page_decoder
from pipelines.inference.backends.openvino.decoder.onnx_weights import DetachedWeights
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels


def paged(
    mixture: Mixture, folder: Path, kernels: LinearKernels | None = None
) -> tuple[ov.Model, DetachedWeights, ExpertLayers]:
    """The model of a mixture whose weights are in a file; they must live as long as it."""
    ir.save(mixture.model(), folder / "model.onnx", external_data="data", size_threshold_bytes=0)
    decoder = DecoderModel(ir.load(folder / "model.onnx"), folder, [], 0, 0, "f32")
    read = page_decoder(decoder, kernels=kernels)
    return read.model, read.weights, read.experts


def run(compiled: ov.CompiledModel, given: dict[str, np.ndarray]) -> np.ndarray:
    """What it mixes for `Mixture.inputs`."""
    return compiled([given[port.any_name] for port in compiled.inputs])[0]

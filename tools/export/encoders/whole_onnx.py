"""Writes a traced encoder as `model.onnx` with compressed weights."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import torch

from pipelines.onnx_format.decoder_format import OPSET
from tools.export.graphs.quantizing import BITS, quantize
from tools.export.graphs.simplifying import simplify

MODEL, DATA = "model.onnx", "model.onnx.data"
AXES = ("num_texts", "width")


def write_onnx(
    program: torch.export.ExportedProgram, inputs: tuple[str, ...], output: str, folder: Path, weights: str
) -> None:
    """Write model.onnx and model.onnx.data to `folder`; `weights`: int8, int4, fp16, bf16 or fp32."""
    traced = torch.onnx.export(
        program,
        dynamo=True,
        input_names=[*inputs],
        output_names=[output],
        opset_version=OPSET,
        optimize=False,
        verbose=False,
    )
    graph = simplify(traced.model, "encoder", is_packed=False)
    if weights in BITS:
        graph = quantize(graph, weights)
    ir.save(graph, folder / MODEL, external_data=DATA, alignment=4096)

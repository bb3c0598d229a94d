"""Writes a decoder as `model.onnx` in Braid's ONNX format, by Braid's own trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx_ir as ir

from tools.export.base.folder import Stage
from tools.export.decoders.experts import route_experts
from tools.export.decoders.tracing import prompts_of, trace, watch
from tools.export.graphs.expert_weights import quantize_experts
from tools.export.graphs.fused_projections import fuse_projections
from tools.export.graphs.linear_inputs import mean_squares
from tools.export.graphs.quantizing import BITS, quantize

MODEL, DATA = "model.onnx", "model.onnx.data"


def write_traced(model: Any, tokenizer: Any, folder: Path, weights: str, stage: Stage) -> Path:
    """Write model.onnx, model.onnx.data and the settings of `model`, which is changed, to `folder`.

    Returns the first.  Raises `ExportError` when Braid's format cannot express the model.
    """
    squares = {}
    if weights == "int4":
        stage("watching what its weights are multiplied with")
        route_experts(model)
        squares = {
            f"model.{name}": mean_square for name, mean_square in mean_squares(model, tokenizer).items()
        }
    stage("watching its attention")
    attention = watch(model, prompts_of(tokenizer, model.config.get_text_config().vocab_size))
    stage("tracing the model")
    graph = trace(model, attention)
    if weights in BITS:
        stage(f"compressing weights to {weights}")
        graph = quantize_experts(quantize(graph, weights, squares), weights, squares)
    graph = fuse_projections(graph)
    stage("writing the weights")
    model.config.save_pretrained(folder)
    model.generation_config.to_json_file(folder / "generation_config.json")  # saving would validate it
    ir.save(graph, folder / MODEL, external_data=DATA, alignment=4096)
    return folder / MODEL

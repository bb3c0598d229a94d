"""Converts a Hugging Face decoder to `model.onnx` in Braid's ONNX format, with its tokenizer and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tools.export.folder import (
    ExportError,
    Stage,
    check_positions,
    put,
    quiet,
    scratch_beside,
    write_tokenizer,
)

Weights = Literal["int8", "int4", "fp16", "bf16", "fp32"]
Activations = Literal["f32", "f16", "bf16"]

ACTIVATIONS: dict[str, Activations] = {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}
"""Type of weights → type of activations."""
DTYPES: dict[str, str] = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
MODEL, DATA = "model.onnx", "model.onnx.data"


def export_onnx(
    source: str,
    folder: Path,
    weights: Weights = "fp32",
    stage: Stage = lambda _: None,
    activations: Activations | None = None,
) -> None:
    """Write `source` (a local folder or a hub id) to `folder`; `stage` is called with each stage of the work.

    `activations` is the type that int8 and int4 weights are multiplied with, f32 by default; others have
    their own.  `folder` receives model.onnx and model.onnx.data, tokenizer.json, config.json and, where the
    model has them, generation_config.json and chat_template.jinja.  It is complete or untouched.
    Raises `ExportError`.
    """
    computed = _computed_in(weights, activations)
    with quiet(), scratch_beside(folder) as scratch:
        made = scratch / "model"
        stage("reading the tokenizer")
        tokenizer = write_tokenizer(source, made)
        check_positions(source)
        _write_model(source, made, tokenizer, weights, DTYPES[computed], stage)
        stage("writing the folder")
        put(made, folder)


def _computed_in(weights: Weights, activations: Activations | None) -> Activations:
    own = ACTIVATIONS.get(weights)
    if own and activations and own != activations:
        raise ExportError(
            f"{weights} weights are computed in {own}; {activations} is for int8 and int4 weights"
        )
    return own or activations or "f32"


def _write_model(
    source: str, folder: Path, tokenizer: Any, weights: Weights, dtype: str, stage: Stage
) -> None:
    import onnx_ir as ir

    from tools.export.quantizing import BITS, quantize
    from tools.export.tracing import load, prompts_of, trace, watch

    stage("reading the model")
    model = load(source, dtype)
    model.config.save_pretrained(folder)
    model.generation_config.to_json_file(folder / "generation_config.json")  # saving would validate it
    stage("watching its attention")
    attention = watch(model, prompts_of(tokenizer, model.config.get_text_config().vocab_size))
    stage("tracing the model")
    graph = trace(model, attention)
    if weights in BITS:
        stage(f"compressing weights to {weights}")
        graph = quantize(graph, weights)
    stage("writing the weights")
    ir.save(graph, folder / MODEL, external_data=DATA, alignment=4096)

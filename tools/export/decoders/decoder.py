"""Converts a Hugging Face decoder to a folder that Braid serves, compared with transformers before it is
written.

Braid's own trace gives `model.onnx`, which every engine opens.  What that format cannot express is given to
optimum-intel, which makes OpenVINO IR.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tools.export.base.folder import ExportError, Stage, put, quiet, scratch_beside
from tools.export.base.tokenizer_files import write_tokenizer

Format = Literal["auto", "onnx", "openvino"]
Activations = Literal["f32", "f16", "bf16"]

COMPUTED: dict[str, Activations] = {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}
"""Type of weights → type of activations."""
NEWER = "; docs/models.md lists the families that are exported with transformers 5"
DTYPES: dict[str, str] = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def export_decoder(
    source: str,
    folder: Path,
    weights: str = "fp32",
    stage: Stage = lambda _: None,
    form: Format = "auto",
    activations: Activations | None = None,
) -> None:
    """Write `source` (a local folder or a hub id) to `folder`; `stage` is called with each stage of the work.

    `weights`: int8, int4, fp16, bf16 or fp32.  `activations` is the type that int8 and int4 weights are
    multiplied with, f32 by default; others have their own.  `folder` receives model.onnx and
    model.onnx.data, or openvino_model.xml and .bin; tokenizer.json, config.json and, where the model has
    them, generation_config.json and chat_template.jinja.  It is complete or untouched.
    Raises `ExportError`.
    """
    from tools.export.base.dequantizing import dequantized
    from tools.export.decoders.loading import load
    from tools.export.decoders.logit_check import check_export, expected_logprobs, tolerance

    computed = _computed_in(weights, activations)
    with quiet(), scratch_beside(folder) as scratch:
        model_folder = scratch / "model"
        stage("reading the tokenizer")
        tokenizer = write_tokenizer(source, model_folder)
        source = dequantized(source, scratch / "plain", stage)
        stage("reading the model")
        model = load(source, DTYPES[computed], stage)
        stage("computing what transformers gives")
        expected = expected_logprobs(model, tokenizer)
        file = _write(model, tokenizer, source, model_folder, weights, form, stage)
        del model
        stage("comparing with transformers")
        check_export(file, expected, tolerance(weights, computed))
        stage("writing the folder")
        put(file.parent, folder)


def _computed_in(weights: str, activations: Activations | None) -> Activations:
    own = COMPUTED.get(weights)
    if own and activations and own != activations:
        raise ExportError(
            f"{weights} weights are computed in {own}; {activations} is for int8 and int4 weights"
        )
    return own or activations or "f32"


def _write(
    model: Any, tokenizer: Any, source: str, folder: Path, weights: str, form: Format, stage: Stage
) -> Path:
    """Write the model by the first way that can; return its file."""
    from tools.export.base.model_config import is_transformers_5
    from tools.export.decoders.onnx_decoder import write_traced
    from tools.export.decoders.openvino_decoder import write_by_optimum

    refused = ""
    if form != "openvino":
        try:
            return write_traced(model, tokenizer, folder, weights, stage)
        except ExportError as error:
            if form == "onnx":
                raise
            refused = f"{error}; "
    model.to("meta")  # gives its weights back: optimum-intel loads them again
    try:
        return write_by_optimum(source, folder, weights, stage)
    except ExportError as error:
        newer = "" if is_transformers_5() else NEWER
        raise ExportError(f"{refused}{error}{newer}") from error

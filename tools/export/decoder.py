"""Converts a Hugging Face decoder to OpenVINO IR with compressed weights, with its tokenizer and settings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

from tools.export.folder import (
    SETTINGS,
    TOKENIZER,
    ExportError,
    Stage,
    check_positions,
    put,
    quiet,
    scratch_beside,
    write_tokenizer,
)

Weights = Literal["int8", "int4", "fp16", "fp32"]

COMPRESSION: dict[str, dict[str, Any]] = {
    "int8": {"bits": 8},
    "int4": {"bits": 4, "group_size": 128, "group_size_fallback": "adjust", "ratio": 1.0},
}
"""nncf's settings by type of weights; a layer too narrow for groups of 128 uses the largest that fits."""

GENERATION = "generation_config.json"
TASK = "text-generation-with-past"  # stateful, the form whose attention can be paged


def export_decoder(source: str, folder: Path, weights: Weights, stage: Stage) -> None:
    """Write `source` (a local folder or a hub id) to `folder`; `stage` is called with each stage of the work.

    `folder` receives openvino_model.xml and .bin, tokenizer.json, config.json and, where the model has
    them, generation_config.json and chat_template.jinja.  It is complete or untouched.
    Raises `ExportError`.
    """
    with quiet(), scratch_beside(folder) as scratch:
        made = scratch / "model"
        stage("reading the tokenizer")
        write_tokenizer(source, made)
        check_positions(source)
        stage("tracing the model")
        _trace(source, made, "fp16" if weights == "fp16" else "fp32")
        _keep_defaults(source, made)
        if weights in COMPRESSION:
            stage(f"compressing weights to {weights}")
            made = _compress(made, scratch / weights, COMPRESSION[weights])
        stage("writing the folder")
        put(made, folder)


def _trace(source: str, folder: Path, dtype: str) -> None:
    from optimum.exporters.openvino import main_export
    from optimum.intel.openvino.configuration import OVConfig

    try:
        main_export(
            model_name_or_path=source,
            output=folder,
            task=TASK,
            library_name="transformers",
            ov_config=OVConfig(dtype=dtype),
            convert_tokenizer=False,
            trust_remote_code=False,
        )
    except (OSError, ValueError, RuntimeError, NotImplementedError) as error:
        raise ExportError(f"optimum-intel cannot export {source}: {error}") from error


def _keep_defaults(source: str, folder: Path) -> None:
    """Copy the sampling defaults unchanged; transformers would validate them and refuse some."""
    given, made = Path(source) / GENERATION, folder / GENERATION
    if given.is_file() and not made.exists():
        shutil.copyfile(given, made)


def _compress(traced: Path, folder: Path, settings: dict[str, Any]) -> Path:
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig

    model = OVModelForCausalLM.from_pretrained(
        traced, compile=False, quantization_config=OVWeightQuantizationConfig(**settings)
    )
    model.save_pretrained(folder)
    for name in (TOKENIZER, *SETTINGS):
        if (traced / name).exists() and not (folder / name).exists():
            shutil.copyfile(traced / name, folder / name)
    return folder

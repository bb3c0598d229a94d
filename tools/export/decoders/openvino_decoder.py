"""Writes a decoder as OpenVINO IR by optimum-intel: for what Braid's own trace cannot express."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pipelines.inference.backends.declared_attention import LONG_ROPE
from tools.export.base.folder import SETTINGS, TOKENIZER, ExportError, Stage, first_line
from tools.export.base.model_config import check_positions, read_model_config

COMPRESSION: dict[str, dict[str, Any]] = {
    "int8": {"bits": 8},
    "int4": {"bits": 4, "group_size": 128, "group_size_fallback": "adjust", "ratio": 1.0},
}
"""nncf's settings by type of weights; a layer too narrow for groups of 128 uses the largest that fits."""
PLAIN = ("fp16", "fp32")

MODEL = "openvino_model.xml"
GENERATION = "generation_config.json"
UNKNOWN = "custom or unsupported architecture"
"""In optimum-intel's error for a family that it does not have."""
TASK = "text-generation-with-past"  # stateful, the form whose attention can be paged


def write_by_optimum(source: str, folder: Path, weights: str, stage: Stage) -> Path:
    """Write openvino_model.xml and the settings of `source` to `folder`, where its tokenizer is.

    Returns the first; compressed, all files are in a folder beside `folder`.  Raises `ExportError`.
    """
    if weights not in (*COMPRESSION, *PLAIN):
        raise ExportError(f"OpenVINO IR has no {weights} weights")
    _check_distances(source)
    stage("tracing the model with optimum-intel")
    trace_by_optimum(source, folder, weights, TASK)
    if weights in COMPRESSION:
        from optimum.intel import OVModelForCausalLM

        stage(f"compressing weights to {weights}")
        folder = compress(OVModelForCausalLM, folder, weights)
    return folder / MODEL


def _check_distances(source: str) -> None:
    """Raise `ExportError` for distances between tokens that IR with paged attention cannot
    express.
    """
    config = read_model_config(source).get_text_config()
    rope = getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type")) in LONG_ROPE:
        raise ExportError("optimum-intel writes the short factors of longrope alone")
    if config.model_type == "falcon" and config.alibi:
        raise ExportError("optimum-intel's IR of Falcon with ALiBi does not give what transformers gives")


def import_optimum() -> tuple[Any, Any]:
    """What exports, and its settings.  Raises `ExportError` without optimum-intel."""
    try:
        from optimum.exporters.openvino import main_export
        from optimum.intel.openvino.configuration import OVConfig
    except Exception as error:  # optimum-intel of another version of transformers fails in many ways
        raise ExportError(
            "optimum-intel, which might export it, cannot be imported with this transformers (pip install -c "
            "constraints.txt -e '.[export,optimum]')"
        ) from error
    return main_export, OVConfig


def trace_by_optimum(source: str, folder: Path, weights: str, task: str) -> None:
    """Write `source` to `folder`, with float16 weights where they stay so, else float32.

    Raises `ExportError`.
    """
    main_export, settings = import_optimum()
    check_positions(source)
    try:
        main_export(
            model_name_or_path=source,
            output=folder,
            task=task,
            library_name="transformers",
            ov_config=settings(dtype="fp16" if weights == "fp16" else "fp32"),
            convert_tokenizer=False,
            trust_remote_code=False,
        )
    except Exception as error:  # of any class, as models and libraries fail in their own ways
        if UNKNOWN in str(error):
            raise ExportError("optimum-intel does not know the family") from error
        raise ExportError(f"optimum-intel cannot export {source}: {first_line(error)}") from error
    _keep_defaults(source, folder)


def _keep_defaults(source: str, folder: Path) -> None:
    """Copy the sampling defaults unchanged; transformers would validate them and refuse some."""
    given, made = Path(source) / GENERATION, folder / GENERATION
    if given.is_file() and not made.exists():
        shutil.copyfile(given, made)


def compress(kind: Any, traced: Path, weights: str) -> Path:
    """The folder beside `traced` with its model, of optimum-intel's class `kind`, in compressed weights."""
    from optimum.intel import OVWeightQuantizationConfig

    folder = traced.with_name(weights)
    settings = OVWeightQuantizationConfig(**COMPRESSION[weights])
    kind.from_pretrained(traced, compile=False, quantization_config=settings).save_pretrained(folder)
    for name in (TOKENIZER, *SETTINGS):
        if (traced / name).exists() and not (folder / name).exists():
            shutil.copyfile(traced / name, folder / name)
    return folder

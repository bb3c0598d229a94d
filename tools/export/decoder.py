"""A Hugging Face decoder → OpenVINO IR with its weights compressed, beside its tokenizer and settings.

Knows optimum-intel and its words; knows nothing of graphs, repositories or the terminal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

Weights = Literal["int8", "int4", "fp16", "fp32"]

COMPRESSION: dict[str, dict[str, Any]] = {
    "int8": {"bits": 8},
    "int4": {"bits": 4, "group_size": 128, "group_size_fallback": "adjust", "ratio": 1.0},
}
"""How nncf compresses weights; a layer too narrow for groups of 128 takes the largest that fits."""

TASK = "text-generation-with-past"  # stateful, the form whose attention can be paged
TOKENIZER = "tokenizer.json"
SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
"""Files a served model may have beside its weights; written by transformers when the model has them."""


class ExportError(Exception):
    """The model cannot be exported as asked; the message says what was tried."""


def export_decoder(source: str, folder: Path, weights: Weights, stage: Callable[[str], None]) -> None:
    """Write `source` (a local folder or a hub id) to `folder`; `stage` hears what is being done.

    `folder` receives openvino_model.xml and .bin, tokenizer.json, config.json and, where the model has
    them, generation_config.json and chat_template.jinja.  It is complete or untouched.
    Raises `ExportError`.
    """
    beside = next(parent for parent in folder.resolve().parents if parent.is_dir())  # to rename, not to copy
    with _quiet(), tempfile.TemporaryDirectory(dir=beside, prefix=".export-") as scratch:
        made = Path(scratch) / "model"
        stage("reading the tokenizer")
        _write_tokenizer(source, made)
        stage("tracing the model")
        _trace(source, made, "fp16" if weights == "fp16" else "fp32")
        if weights in COMPRESSION:
            stage(f"compressing weights to {weights}")
            made = _compress(made, Path(scratch) / weights, COMPRESSION[weights])
        stage("writing the folder")
        if folder.exists():
            shutil.rmtree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        made.rename(folder)


def _write_tokenizer(source: str, folder: Path) -> None:
    """Write tokenizer.json and the chat template, converting a slow tokenizer where transformers can."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        raise ExportError(_tried(source, error)) from error
    if not tokenizer.is_fast:
        raise ExportError(
            f"{source} has no {TOKENIZER}, which serving needs, and transformers cannot make one from its "
            f"{type(tokenizer).__name__}."
        )
    tokenizer.save_pretrained(folder)


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


def _tried(source: str, error: Exception) -> str:
    """Why nothing could be read, and where it was looked for."""
    said = str(error).strip().splitlines()[0]
    if Path(source).is_dir():
        return f"{source} has no tokenizer that transformers can read: {said}"
    return f"there is no folder {Path(source).resolve()}, and {source} could not be had as a hub id: {said}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep tracing's warnings and logs off the terminal: they are about torch, not the model."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    loggers = [logging.getLogger(name) for name in ("transformers", "optimum", "nncf", "torch")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)

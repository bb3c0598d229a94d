"""Writes the parts of a vision model as OpenVINO IR, by optimum-intel, and how it reads images."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pipelines.repository.exports.vision_graph import SETTINGS
from tools.export.base.folder import ExportError, Stage, first_line, read_json
from tools.export.decoders.openvino_decoder import COMPRESSION, compress, trace_by_optimum

TASK = "image-text-to-text"
TEMPLATE, OLDER_TEMPLATE = "chat_template.jinja", "chat_template.json"
"""The chat template of a processor, as transformers writes it now and wrote it before."""


def write_image_settings(source: str, folder: Path) -> Any:
    """Write preprocessor_config.json, and the chat template where the tokenizer has none.

    Returns transformers' image processor.  Raises `ExportError`.
    """
    from transformers import AutoImageProcessor

    try:
        processor = AutoImageProcessor.from_pretrained(source, use_fast=False, trust_remote_code=False)
    except Exception as error:  # of many classes: files, hub, fields
        raise ExportError(
            f"transformers cannot read how {source} sees images: {first_line(error)}"
        ) from error
    processor.save_pretrained(folder)
    older = Path(source) / OLDER_TEMPLATE
    if older.is_file() and not (folder / TEMPLATE).is_file():
        (folder / TEMPLATE).write_text(read_json(older)["chat_template"], encoding="utf-8")
    return processor


def write_parts(source: str, folder: Path, weights: str, stage: Stage) -> Path:
    """Write all models of `source` to `folder`, where its settings are.

    Returns `folder`; compressed, all files are in a folder beside it.  Raises `ExportError`.
    """
    stage("tracing the model with optimum-intel")
    trace_by_optimum(source, folder, weights, TASK)
    if weights not in COMPRESSION:
        return folder
    from optimum.intel import OVModelForVisualCausalLM

    stage(f"compressing weights to {weights}")
    compressed = compress(OVModelForVisualCausalLM, folder, weights)
    shutil.copyfile(folder / SETTINGS, compressed / SETTINGS)
    return compressed

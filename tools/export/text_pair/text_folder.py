"""What a Hugging Face folder with an encoder-decoder model of text holds, and what is served of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.repository.exports.export_files import architectures
from tools.export.base.folder import ExportError, read_json
from tools.export.encoder_decoder.families import FAMILIES
from tools.export.encoder_decoder.t5 import MAX_CONTEXT, T5

CONFIG, GENERATION = "config.json", "generation_config.json"
ENDINGS = ("ForConditionalGeneration", "MTModel", "WithLMHeadModel")
"""Endings of the architectures that write text; others of these families classify, or are encoders alone."""
START = "decoder_start_token_id"
GENERATION_FIELDS = (
    START,
    "forced_bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "bos_token_id",
    "bad_words_ids",
)
"""What older folders say about generation in config.json."""


def is_text_pair(source: str) -> bool:
    """Whether a folder holds a model of text with an encoder and a decoder, by its config.json."""
    try:
        fields = json.loads((Path(source) / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(fields, dict) or not fields.get("is_encoder_decoder") or "vocab_size" not in fields:
        return False
    return any(name.endswith(ENDINGS) for name in architectures(fields))


def read_config(folder: Path) -> dict[str, Any]:
    """The fields of config.json, of a family that is exported.  Raises `ExportError`."""
    config = read_json(folder / CONFIG)
    kind = config.get("model_type")
    if kind not in FAMILIES:
        raise ExportError(
            f"{folder} is a {kind} model with an encoder and a decoder; of these are exported: "
            f"{', '.join(FAMILIES)}, and whisper"
        )
    return config | {"n_positions": config.get("n_positions") or MAX_CONTEXT} if kind in T5 else config


def generation_fields(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The fields of the served generation_config.json: greedy unless the folder says that it samples.

    Raises `ExportError`.
    """
    old = {name: config[name] for name in GENERATION_FIELDS if config.get(name) is not None}
    new = read_json(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    fields = {"do_sample": False, **old, **{name: value for name, value in new.items() if value is not None}}
    fields.setdefault(START, fields.get("bos_token_id"))
    if not isinstance(fields[START], int):
        raise ExportError(f"{folder}: neither {CONFIG} nor {GENERATION} has a {START}")
    return fields

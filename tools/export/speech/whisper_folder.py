"""What a folder with a Whisper model holds, of Hugging Face's form or of CTranslate2's (faster-whisper)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.repository.exports.speech_graph import OPTIMUM, REFUSAL
from tools.export.base.folder import ExportError, read_json
from tools.export.base.hugging_face_weights import read_safetensors
from tools.export.speech.ctranslate2_file import Arrays, find_ctranslate2, read_ctranslate2
from tools.export.speech.ctranslate2_weights import whisper_weights
from tools.export.speech.token_files import (
    feature_fields,
    generation_fields,
    token_ids,
    with_times,
)

CONFIG, TOKENIZER, FEATURES = "config.json", "tokenizer.json", "preprocessor_config.json"
GENERATION = "generation_config.json"
RENAMED = {"suppress_ids": "suppress_tokens", "suppress_ids_begin": "begin_suppress_tokens"}
"""CTranslate2's field of config.json → Hugging Face's of generation_config.json."""


@dataclass(frozen=True)
class WhisperFolder:
    """A model by Hugging Face's names, and the content of the files that are served with it."""

    weights: Arrays
    config: dict[str, Any]
    files: dict[str, dict[str, Any]]


def is_whisper(source: str) -> bool:
    """Whether a folder holds a Whisper model, by its file names and its config.json."""
    folder = Path(source)
    if find_ctranslate2(folder) or (folder / OPTIMUM[0]).is_file():
        return True
    try:
        fields = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(fields, dict) and fields.get("model_type") == "whisper"


def read_whisper(folder: Path) -> WhisperFolder:
    """Raises `ExportError`."""
    if (folder / OPTIMUM[0]).is_file():
        raise ExportError(f"{folder}: {REFUSAL}")
    binary = find_ctranslate2(folder)
    return _read_ctranslate2(folder, binary) if binary else _read_hugging_face(folder)


def _read_ctranslate2(folder: Path, binary: list[Path]) -> WhisperFolder:
    given = read_json(folder / CONFIG)
    try:
        weights, config = whisper_weights(read_ctranslate2(binary))
    except ExportError as error:
        raise ExportError(f"{binary[0]}: {error}") from error
    facts = {name: given[theirs] for theirs, name in RENAMED.items() if theirs in given}
    if "alignment_heads" in given:
        facts["alignment_heads"] = given["alignment_heads"]
    return _with_files(weights, config, read_json(folder / TOKENIZER), facts, feature_fields(config))


def _read_hugging_face(folder: Path) -> WhisperFolder:
    config = read_json(folder / CONFIG)
    if not (folder / TOKENIZER).is_file():
        raise ExportError(
            f"{folder} has no {TOKENIZER}: write it with transformers, "
            "WhisperTokenizerFast.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    facts = read_json(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    features = feature_fields(config)
    if (folder / FEATURES).is_file():
        features |= {
            name: value for name, value in read_json(folder / FEATURES).items() if name != "mel_filters"
        }
    return _with_files(read_safetensors(folder), config, read_json(folder / TOKENIZER), facts, features)


def _with_files(
    weights: Arrays,
    config: dict[str, Any],
    tokenizer: dict[str, Any],
    facts: dict[str, Any],
    features: dict[str, Any],
) -> WhisperFolder:
    """`facts` are what the folder says about generation, which counts more than what its tokenizer shows."""
    generation = generation_fields(token_ids(tokenizer)) | facts
    files = {
        CONFIG: config | {"eos_token_id": generation["eos_token_id"]},
        TOKENIZER: with_times(tokenizer),
        GENERATION: generation,
        FEATURES: features,
    }
    return WhisperFolder(weights, config, files)

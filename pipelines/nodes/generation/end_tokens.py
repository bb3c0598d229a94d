"""The end tokens of a model, from the settings beside it.  Knows names of files; knows no node."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphs.graph import Binding

GENAI_CONFIG = "genai_config.json"
END_TOKEN_FILES = ("generation_config.json", "config.json", GENAI_CONFIG)
"""Files of a model that may name its end tokens; the last is onnxruntime-genai's."""


def end_token_ids(folder: Path, body: Iterable[Binding]) -> frozenset[int]:
    """The model's end tokens: what the settings beside the model, or one folder above it, name so.

    `onnx/model.onnx` has its settings in the folder above.  Raises ValueError naming file and key.
    """
    paths = [getattr(line.config, name, None) for line in body for name in ("defaults", "path")]
    named = [folder / path for path in paths if path]
    places = {file.parent for file in named} | {file.parent.parent for file in named if file.parent != folder}
    files = (place / name for place in places for name in END_TOKEN_FILES)
    return frozenset(token_id for file in files if file.is_file() for token_id in _eos(file))


def _eos(settings: Path) -> list[int]:
    fields = json.loads(settings.read_text())
    eos = (fields.get("model", fields) if settings.name == GENAI_CONFIG else fields).get("eos_token_id")
    ids = eos if isinstance(eos, list) else [] if eos is None else [eos]
    if not all(type(token_id) is int and token_id >= 0 for token_id in ids):
        raise ValueError(f"{settings}: eos_token_id must be a token id or a list of token ids, got {eos!r}")
    return ids

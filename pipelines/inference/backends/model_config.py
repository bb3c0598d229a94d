"""Reads from a model's config.json what every backend needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.inference.contracts.device_errors import ModelError

CONTEXT_FIELDS = (
    *("max_target_positions", "max_position_embeddings", "n_positions"),
    *("seq_len", "seq_length", "n_ctx", "max_seq_len"),
)
"""Fields of config.json for the longest context in tokens; the first that is present counts."""


def read_config(config: Path) -> dict[str, Any]:
    """The fields of a decoder's config.json, those of its language model over the outer ones.

    Raises `ModelError`.
    """
    try:
        fields = json.loads(config.read_text())
    except (OSError, ValueError) as error:
        raise ModelError(f"{config} is needed and cannot be read: {error}") from error
    if not isinstance(fields, dict):
        raise ModelError(f"{config} holds no JSON object.")
    return fields | (fields.get("text_config") or fields.get("llm_config") or {})


def read_max_context(config: Path) -> int:
    """The longest context in tokens, from config.json.  Raises `ModelError`."""
    fields = read_config(config)
    for name in CONTEXT_FIELDS:
        if isinstance(fields.get(name), int):
            return int(fields[name])
    raise ModelError(f"{config} names no context length; add one of {', '.join(CONTEXT_FIELDS)}.")

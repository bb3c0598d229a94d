"""The settings of a GLiNER model, read from its gliner_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN_LEVEL = "token_level"
WHITESPACE = "whitespace"
POOLINGS = ("first", "last", "mean", "max")
OTHER_MODELS = {
    "labels_encoder": "has an encoder of labels",
    "labels_decoder": "writes labels itself",
    "relations_layer": "finds relations",
}
"""A setting of models that need other tensors → what such a model does."""
MAX_WIDTH = 64


@dataclass(frozen=True)
class SpanSettings:
    """`width` is the number of words of the longest span, None where the model marks where spans begin and
    end; `max_words` those of the longest text.

    `entity` is the token before each label, `separator` the one before the text.  `pooling` says from which
    tokens of a word the model reads it.
    """

    width: int | None
    max_words: int
    entity: str
    separator: str
    pooling: str


def read_span_settings(path: Path) -> SpanSettings:
    """Raises ValueError, naming the setting, for a model that works in another way."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(fields, dict):
        raise ValueError(f"{path.name}: not a JSON object")
    if fault := other_kind(fields):
        raise ValueError(f"{path.name}: {fault}")
    is_token_level = fields.get("span_mode") == TOKEN_LEVEL
    return SpanSettings(
        None if is_token_level else _whole(path, fields, "max_width", 12, MAX_WIDTH),
        _whole(path, fields, "max_len", 384, 1 << 14),
        str(fields.get("ent_token", "<<ENT>>")),
        str(fields.get("sep_token", "<<SEP>>")),
        str(fields.get("subtoken_pooling") or POOLINGS[0]),
    )


def other_kind(fields: Mapping[str, Any]) -> str | None:
    """Why a GLiNER model cannot be served, by its settings; None where it can."""
    for name, does in OTHER_MODELS.items():
        if fields.get(name):
            return f"`{name}`: this GLiNER model {does}; models with one encoder, of spans or of tokens, run"
    kind = str(fields.get("model_type") or "")
    if "relex" in kind or "streaming" in kind or "decoder" in kind:
        return (
            f"`model_type`: {kind} models have other inputs; those with one encoder, of spans or tokens, run"
        )
    splitter = fields.get("words_splitter_type", WHITESPACE)
    if splitter != WHITESPACE:
        return f"`words_splitter_type`: words are split by `{WHITESPACE}` alone, not by `{splitter}`"
    if fields.get("subtoken_pooling", POOLINGS[0]) not in (*POOLINGS, None):
        return f"`subtoken_pooling` must be one of {', '.join(POOLINGS)}"
    return None


def _whole(path: Path, fields: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = fields.get(name, default)
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{path.name}: `{name}` must be a number from 1 to {most}, not {value!r}")
    return value

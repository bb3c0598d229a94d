"""Reads the settings files of a model: its end tokens and its default sampling parameters.

Used by workers, so it imports no array library.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.wire.sampling_params import MAX_DRAFT_TOKENS, MAX_NGRAM

if TYPE_CHECKING:
    from graphs.graph import Binding

GENAI_CONFIG = "genai_config.json"
END_TOKEN_FILES = ("generation_config.json", "config.json", GENAI_CONFIG)
"""Files of a model that may name its end tokens; the last is onnxruntime-genai's."""


def end_token_ids(folder: Path, body: Iterable[Binding]) -> frozenset[int]:
    """The model's end tokens, from the settings in the model's folder or one folder above it.

    The settings of `onnx/model.onnx` are in the folder above.  Raises ValueError naming file and key.
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


class Key(NamedTuple):
    """A key of the file: its name in `SamplingParams`, and the range of its value."""

    name: str
    whole: bool
    low: float
    high: float


KEYS = {
    "temperature": Key("temperature", whole=False, low=0, high=100),
    "top_k": Key("top_k", whole=True, low=-1, high=math.inf),
    "top_p": Key("top_p", whole=False, low=0, high=1),
    "min_p": Key("min_p", whole=False, low=0, high=1),
    "repetition_penalty": Key("repetition_penalty", whole=False, low=0, high=math.inf),
    "presence_penalty": Key("presence_penalty", whole=False, low=-2, high=2),
    "frequency_penalty": Key("frequency_penalty", whole=False, low=-2, high=2),
    "max_new_tokens": Key("max_tokens", whole=True, low=1, high=math.inf),
    "num_assistant_tokens": Key("num_draft_tokens", whole=True, low=0, high=math.inf),
    "assistant_confidence_threshold": Key("draft_threshold", whole=False, low=0, high=1),
    "max_ngram_size": Key("max_ngram", whole=True, low=0, high=math.inf),
}

MOST_DRAFTED = {"num_draft_tokens": MAX_DRAFT_TOKENS, "draft_threshold": 1.0, "max_ngram": MAX_NGRAM}
"""Higher values change no text, so they are lowered and not refused."""

NEVER_ZERO = frozenset({"top_p", "repetition_penalty"})


def read_defaults(path: Path) -> dict[str, Any]:
    """The fields of `SamplingParams` that the file sets.

    A key that is absent or null is left out.  `do_sample: false` without a temperature means greedy, as
    Hugging Face reads it (temperature 0); with one, the temperature counts.  `top_k` of 0 or -1 is off (0).
    0 draft tokens count as not set, as in OpenVINO GenAI: the graph decides whether tokens are drafted.
    Raises ValueError naming file and key where a value has a wrong type or is out of range, OSError where
    the file cannot be read.
    """
    stated = _read_object(path)
    defaults = {key.name: _number(path, name, stated[name]) for name, key in KEYS.items() if name in stated}
    if forbidden := [[token_id] for token_id in _ids(path, "suppress_tokens", stated)] + _words(path, stated):
        defaults["bad_words_ids"] = forbidden
    if at_begin := _ids(path, "begin_suppress_tokens", stated):
        defaults["begin_suppress_ids"] = at_begin
    if "top_k" in defaults:
        defaults["top_k"] = max(0, defaults["top_k"])
    for name, most in MOST_DRAFTED.items():
        if drafted := min(defaults.pop(name, 0), most):
            defaults[name] = drafted
    if _flag(path, "do_sample", stated.get("do_sample")) is False:
        defaults.setdefault("temperature", 0.0)
    return defaults


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: must hold a JSON object, got {type(value).__name__}")
    return {name: stated for name, stated in value.items() if stated is not None}


def _number(path: Path, name: str, value: Any) -> Any:
    key = KEYS[name]
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not isinstance(value, int | float) or (key.whole and not whole):
        raise ValueError(f"{path}: {name} must be {'an integer' if key.whole else 'a number'}, got {value!r}")
    if not key.low <= value <= key.high or math.isinf(value) or (value == 0 and name in NEVER_ZERO):
        raise ValueError(f"{path}: {name} is out of range: {value!r}")
    return int(value) if key.whole else float(value)


def _ids(path: Path, name: str, stated: dict[str, Any]) -> list[int]:
    value = stated.get(name, [])
    if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
        raise ValueError(f"{path}: {name} must be a list of token ids, got {value!r}")
    return value


def _words(path: Path, stated: dict[str, Any]) -> list[list[int]]:
    words = stated.get("bad_words_ids", [])
    if not isinstance(words, list):
        raise ValueError(f"{path}: bad_words_ids must be a list of lists of token ids, got {words!r}")
    return [_ids(path, "bad_words_ids", {"bad_words_ids": word}) for word in words]


def _flag(path: Path, name: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{path}: {name} must be true or false, got {value!r}")
    return value

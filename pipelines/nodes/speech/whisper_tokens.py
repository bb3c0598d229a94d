"""The special tokens of a Whisper model, read from its generation_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS_PER_ID = 0.02
"""The seconds between the times of two neighbouring ids."""


@dataclass(frozen=True)
class WhisperTokens:
    """Ids by their meaning.  `languages` and `tasks` are empty in a model that knows English only."""

    start: int
    no_timestamps: int
    languages: Mapping[str, int]
    tasks: Mapping[str, int]
    max_initial: int | None = None

    @property
    def previous(self) -> int:
        """The id before the text that was spoken earlier."""
        return self.no_timestamps - 2

    @property
    def no_speech(self) -> int:
        return self.no_timestamps - 1

    @property
    def first_time(self) -> int:
        return self.no_timestamps + 1

    def seconds(self, token_id: int) -> float:
        """The time that a token is; negative for any other token."""
        return round((token_id - self.first_time) * SECONDS_PER_ID, 2)


def read_whisper_tokens(path: Path) -> WhisperTokens:
    """Raises ValueError naming the file and the key at fault, OSError where the file cannot be read."""
    config: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError(f"{path.name}: must hold a JSON object")
    languages = {name.strip("<|>"): token_id for name, token_id in _ids(path, config, "lang_to_id").items()}
    tasks = _ids(path, config, "task_to_id")
    if bool(languages) != {"transcribe", "translate"}.issubset(tasks):
        raise ValueError(f"{path.name}: lang_to_id and task_to_id must both be there, or neither")
    return WhisperTokens(
        _id(path, config, "decoder_start_token_id"),
        _id(path, config, "no_timestamps_token_id"),
        languages,
        tasks,
        config.get("max_initial_timestamp_index"),
    )


def _id(path: Path, config: dict[str, Any], key: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 2:
        raise ValueError(f"{path.name}: {key} must be a token id, got {value!r}")
    return value


def _ids(path: Path, config: dict[str, Any], key: str) -> dict[str, int]:
    value = config.get(key) or {}
    if not isinstance(value, dict) or not all(type(each) is int for each in value.values()):
        raise ValueError(f"{path.name}: {key} must be token ids by name")
    return value

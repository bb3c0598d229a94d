"""How each family of audio models turns a sound into windows and tokens, from the model's own files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.nodes.audio.encoded_audio import EncodedAudio
from pipelines.nodes.audio.log_mel import MelSettings, read_settings
from pipelines.nodes.audio.voxtral import read_voxtral


class AudioFamily(Protocol):
    """`token_id` stands for a part of a sound in a prompt; a window has `num_tokens` of them.

    `marks`: what a user's text must not become: what chat templates write in the place of a sound, then
    others that stand for one.
    """

    @property
    def token_id(self) -> int: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def marks(self) -> tuple[str, ...]: ...

    def read(self, sound: NDArray[np.float32]) -> EncodedAudio:
        """What the encoder reads of float32[samples] at 16 kHz, and what the prompt has of it."""


FAMILIES: dict[str, Callable[[Mapping[str, Any], MelSettings], AudioFamily]] = {"voxtral": read_voxtral}
"""`model_type` → its family, from config.json and preprocessor_config.json."""


def read_audio(config: Path, settings: Path) -> AudioFamily:
    """Raises ValueError, which names the file, for a model whose sounds would be read wrong."""
    try:
        model = json.loads(config.read_text(encoding="utf-8"))
        kind = model["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{config} cannot be read: {error!r}") from error
    if kind not in FAMILIES:
        raise ValueError(
            f"{config}: sounds of models of type {kind} are not read; known: {', '.join(FAMILIES)}"
        )
    mel = read_settings(settings)
    try:
        return FAMILIES[kind](model, mel)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{config} with {settings.name}: {error}") from error

"""The settings of a Piper voice, read from the .onnx.json beside its model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.base.errors import RequestError

BEGIN, END, PAD = "^", "$", "_"
"""Phonemes before and after a sentence, and behind each of its phonemes."""
OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)
"""Names that clients of OpenAI's send; each means the model's first voice, unless it has one of that name."""
ESPEAK, CHARACTERS = "espeak", "text"
PHONEME_TYPES = (ESPEAK, CHARACTERS)
"""What makes the phonemes: espeak-ng, or the text's own characters are the phonemes."""


@dataclass(frozen=True)
class VoiceSettings:
    """`ids` are those of each phoneme, `speakers` the number of each voice by its name, the default first.

    `espeak_voice` is None where the characters of a text are the phonemes.  `has_speakers`: the model reads
    the number of the speaker.  `languages` are the codes of its language, in lower case.
    """

    rate: int
    espeak_voice: str | None
    ids: Mapping[str, list[int]]
    noise: float
    length: float
    noise_w: float
    speakers: Mapping[str, int]
    has_speakers: bool
    languages: tuple[str, ...]

    def voice(self, name: str | None) -> str:
        """The voice for the one that a request names.  Raises RequestError."""
        default = next(iter(self.speakers))
        if name in self.speakers:
            return str(name)
        if name in (None, *OPENAI_VOICES):
            return default
        raise RequestError(
            f"Requested voice '{str(name)[:64]}' not found in available voices: {', '.join(self.speakers)}; "
            f"OpenAI's names mean {default}",
            "voice",
        )

    def check_language(self, language: str | None) -> None:
        """Raise RequestError for a language that the voice does not speak."""
        if language is not None and plain(language) not in self.languages:
            known = ", ".join(self.languages)
            raise RequestError(f"This voice does not speak `{language[:32]}`; it speaks: {known}", "language")


def plain(language: str) -> str:
    """A code of a language in one way of writing: `en-us`."""
    return language.replace("_", "-").lower()


def read_voice_settings(path: Path) -> VoiceSettings:
    """Raises ValueError naming the file and what is wrong with it, OSError where it cannot be read."""
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
        return _settings(config)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        said = f"lacks {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path.name}, the settings of a Piper voice: {said}") from error


def _settings(config: Any) -> VoiceSettings:
    kind = config.get("phoneme_type", ESPEAK)
    if kind not in PHONEME_TYPES:
        raise ValueError(f"phoneme_type is {kind!r}; supported are {', '.join(PHONEME_TYPES)}")
    if config.get("phoneme_map"):
        raise ValueError("phoneme_map, which replaces phonemes, is not supported")
    inference, language = config.get("inference", {}), config.get("language") or {}
    voice = config["espeak"]["voice"] if kind == ESPEAK else None
    codes = [language.get("code"), voice, language.get("family")]
    num_speakers = config.get("num_speakers", 1)
    rate = config["audio"]["sample_rate"]
    if type(rate) is not int or not 4_000 <= rate <= 192_000:
        raise ValueError(f"audio.sample_rate is {rate!r}")
    return VoiceSettings(
        rate,
        voice,
        _ids(config["phoneme_id_map"]),
        float(inference.get("noise_scale", 0.667)),
        float(inference.get("length_scale", 1)),
        float(inference.get("noise_w", 0.8)),
        _speakers(config, num_speakers),
        num_speakers > 1,
        tuple(dict.fromkeys(plain(code) for code in codes if code)),
    )


def _ids(found: Any) -> Mapping[str, list[int]]:
    for phoneme in (BEGIN, END, PAD):
        if phoneme not in found:
            raise ValueError(f"phoneme_id_map has no `{phoneme}`")
    for phoneme, ids in found.items():
        if not isinstance(ids, list) or not all(type(each) is int and each >= 0 for each in ids):
            raise ValueError(f"phoneme_id_map: `{phoneme}` has no list of ids")
    return dict(found)


def _speakers(config: Any, count: int) -> Mapping[str, int]:
    if count <= 1:
        return {str(config.get("dataset") or "default"): 0}
    named = config.get("speaker_id_map") or {str(number): number for number in range(count)}
    if not all(type(number) is int and 0 <= number < count for number in named.values()):
        raise ValueError(f"speaker_id_map names speakers that are not among the {count}")
    return dict(named)

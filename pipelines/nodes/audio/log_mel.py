"""The log_mel node: windows of sound → the features that a Whisper encoder reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.audio.mel_filters import mel_filters
from pipelines.nodes.interface import Loading, Running
from pipelines.values.node_values import Features

EXTRACTOR = "WhisperFeatureExtractor"
FLOOR, RANGE = 1e-10, 8.0
"""The least power, and how many powers of ten below its loudest the quietest part of a window may be."""
PART = 3000
"""Frames that are computed at a time: those of 30 seconds."""
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class MelSettings:
    """Settings of preprocessor_config.json: `window` samples a spectrum, `hop` between two; a chunk has
    `num_samples`.
    """

    num_mels: int
    rate: int
    window: int
    hop: int
    num_samples: int

    @property
    def num_frames(self) -> int:
        return self.num_samples // self.hop


class LogMel(Node):
    """Log-mel spectrograms of windows of sound, each filled up with silence to the model's length."""

    class Config(NodeConfig):
        settings: FilePath = Field(description="preprocessor_config.json of the model")

    def load(self, resources: Loading) -> None:
        """Raises ValueError for settings of another kind of features."""
        self.settings = resources.shared(read_settings, self.folder / self.config.settings)

    def run(self, call: Running, windows: list[NDArray[np.float32]]) -> Features:
        """Raises RequestError for windows that are empty or longer than the model's."""
        settings = self.settings
        longest, shortest = max(map(len, windows), default=0), min(map(len, windows), default=0)
        if not 0 < shortest <= longest <= settings.num_samples:
            most = settings.num_samples / settings.rate
            raise RequestError(f"a window of sound has more than 0 and at most {most:g} seconds")
        values = np.empty((len(windows), settings.num_mels, settings.num_frames), np.float32)
        for window, into in zip(windows, values, strict=True):
            write_log_mel(window, settings, into)
        return Features(values)


def read_settings(path: Path) -> MelSettings:
    """Raises ValueError, also where the file cannot be read."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        settings = MelSettings(
            fields["feature_size"],
            fields["sampling_rate"],
            fields["n_fft"],
            fields["hop_length"],
            fields["chunk_length"] * fields["sampling_rate"],
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is no {EXTRACTOR}'s settings: {error!r}") from error
    named = fields.get("feature_extractor_type", EXTRACTOR)
    numbers = (settings.num_mels, settings.rate, settings.window, settings.hop, settings.num_samples)
    if named != EXTRACTOR or not all(isinstance(number, int) and number > 0 for number in numbers):
        raise ValueError(f"{path}: {named} with {settings}; features of {EXTRACTOR} are computed")
    if fields.get("do_normalize") or fields.get("dither"):
        raise ValueError(f"{path} sets do_normalize or dither, which are not computed")
    return settings


def write_log_mel(sound: Floats, settings: MelSettings, into: Floats) -> None:
    """Write float32[num_mels, num_frames] of float32[samples]; the silence behind its end is not computed.

    Of a long sound a part is computed at a time: spectra take many times the memory of samples.
    """
    half, hop = settings.window // 2, settings.hop
    padded = np.zeros(settings.num_samples + 2 * half, np.float64)
    inner = padded[half : half + settings.num_samples]
    inner[: len(sound)] = sound
    padded[:half] = inner[half:0:-1]
    padded[half + settings.num_samples :] = inner[-2 : -half - 2 : -1]
    heard = min(settings.num_frames, -(-(half + len(sound)) // hop))
    frames = np.lib.stride_tricks.sliding_window_view(padded, settings.window)[::hop][:heard]
    parts = {begin: _levels(frames[begin : begin + PART], settings) for begin in range(0, heard, PART)}
    loudest = max(float(levels.max()) for levels in parts.values())
    least = max(loudest - RANGE, float(np.log10(FLOOR)))
    for begin, levels in parts.items():
        into[:, begin : begin + len(levels)] = (np.maximum(levels, least).T + 4) / 4
    into[:, heard:] = (least + 4) / 4


def _levels(frames: Doubles, settings: MelSettings) -> Doubles:
    """float64[frames, num_mels]: powers of ten."""
    spectrum = np.fft.rfft(frames * np.hanning(settings.window + 1)[:-1], axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    filters = mel_filters(settings.num_mels, settings.window // 2 + 1, settings.rate)
    levels: Doubles = np.log10(np.maximum(power @ filters, FLOOR))
    return levels

"""Voxtral: a sound is filled up with silence to whole windows of 30 seconds, each of which has 375 tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.nodes.audio.decoding import RATE
from pipelines.nodes.audio.encoded_audio import EncodedAudio
from pipelines.nodes.audio.log_mel import MelSettings, write_log_mel

BEGIN, TOKEN = "[BEGIN_AUDIO]", "[AUDIO]"
AUDIO = {"hidden_size": 1280, "intermediate_size": 5120, "max_source_positions": 1500, "num_mel_bins": 128}
"""Values of audio_config, where config.json leaves them out."""


@dataclass(frozen=True)
class Voxtral:
    """`num_tokens` are those of a window."""

    token_id: int
    num_tokens: int
    settings: MelSettings
    marks: tuple[str, ...] = (TOKEN, BEGIN)

    def read(self, sound: NDArray[np.float32]) -> EncodedAudio:
        """The spectrogram is that of the whole sound, cut into windows."""
        window = self.settings
        count = -(-len(sound) // window.num_samples)
        whole = replace(window, num_samples=count * window.num_samples)
        values = np.empty((window.num_mels, count * window.num_frames), np.float32)
        write_log_mel(sound, whole, values)
        windows = values.reshape(window.num_mels, count, window.num_frames).swapaxes(0, 1)
        return EncodedAudio(windows, BEGIN + TOKEN * count)


def read_voxtral(config: Mapping[str, Any], settings: MelSettings) -> Voxtral:
    """Raises ValueError, KeyError or TypeError for a model that reads sounds in another way."""
    audio = AUDIO | config["audio_config"]
    frames, positions = settings.num_frames, audio["max_source_positions"]
    if (frames, settings.num_mels) != (2 * positions, audio["num_mel_bins"]):
        raise ValueError(
            f"the model reads windows of {audio['num_mel_bins']} × {2 * positions}, and they are made of "
            f"{settings.num_mels} × {frames}"
        )
    num_tokens, rest = divmod(positions * audio["hidden_size"], audio["intermediate_size"])
    token = config["audio_token_id"]
    if rest or not isinstance(token, int) or settings.rate != RATE:
        raise ValueError("audio_config, audio_token_id or sampling_rate are not those of a Voxtral")
    return Voxtral(token, num_tokens, settings)

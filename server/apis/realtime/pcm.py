"""Sound as clients send it, base64 of 16-bit samples → int16 samples at the rate of models."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.nodes.audio.pyav import import_av
from pipelines.nodes.speech.windows import SAMPLES_PER_S

Pcm = NDArray[np.int16]
"""int16[samples] of one channel, 16,000 a second."""


class PcmReader:
    """Reads the pieces of one stream of little-endian samples of one channel, at `rate` a second."""

    def __init__(self, rate: int = SAMPLES_PER_S) -> None:
        """Raises RequestError where another rate needs PyAV, and it is not installed."""
        self.rate = rate
        self._resampler = None if rate == SAMPLES_PER_S else _resampler()

    def read(self, audio: str) -> Pcm:
        """The samples of one piece; a resampler holds the last few back.  Raises ValueError."""
        data = base64.b64decode(audio, validate=True)
        if not data or len(data) % 2:
            raise ValueError("no samples of 16 bits")
        samples = np.frombuffer(data, "<i2")
        return samples if self._resampler is None else self._resampled(samples)

    def _resampled(self, samples: Pcm) -> Pcm:
        from av import AudioFrame

        assert self._resampler is not None
        frame = AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = self.rate
        parts = [part.to_ndarray()[0] for part in self._resampler.resample(frame)]
        return np.concatenate([np.empty(0, np.int16), *parts])


def _resampler() -> Any:
    av = import_av(f"takes sound at {SAMPLES_PER_S} samples a second only")
    return av.AudioResampler(format="s16", layout="mono", rate=SAMPLES_PER_S)

"""Sound as clients send it, in base64 → int16 samples at the rate of models."""

from __future__ import annotations

import base64
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.nodes.audio.pyav import import_av
from pipelines.nodes.speech.windows import SAMPLES_PER_S

Pcm = NDArray[np.int16]
"""int16[samples] of one channel, 16,000 a second."""


Kind = Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
PCM: Kind = "audio/pcm"
TELEPHONE_RATE = 8_000
"""Samples a second of G.711."""
OlderKind = Literal["pcm16", "g711_ulaw", "g711_alaw"]
OLDER_KINDS: dict[str, Kind] = {"pcm16": PCM, "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
"""Names of sound formats in the beta → today's names."""


class SoundForm(NamedTuple):
    """How sound is written in events: 16-bit samples, or G.711's 8 bits.  `rate` are samples a second."""

    kind: Kind
    rate: int

    def read(self, data: bytes) -> Pcm:
        """The samples of a piece, `rate` a second.  Raises ValueError for a piece without whole samples."""
        if not data or (self.kind == PCM and len(data) % 2):
            raise ValueError("no whole samples")
        if self.kind == PCM:
            return np.frombuffer(data, "<i2")
        from server.apis.realtime import g711

        codes = np.frombuffer(data, np.uint8)
        return g711.from_ulaw(codes) if self.kind == "audio/pcmu" else g711.from_alaw(codes)

    def write(self, samples: Pcm) -> bytes:
        """The bytes of samples at `rate`."""
        if self.kind == PCM:
            return samples.astype("<i2", copy=False).tobytes()
        from server.apis.realtime import g711

        return (g711.to_ulaw if self.kind == "audio/pcmu" else g711.to_alaw)(samples).tobytes()

    @property
    def shown(self) -> dict[str, Any]:
        """The form as clients see it."""
        return {"type": self.kind, "rate": self.rate} if self.kind == PCM else {"type": self.kind}

    @property
    def shown_older(self) -> str:
        """The form by its name in the beta."""
        return next(name for name, kind in OLDER_KINDS.items() if kind == self.kind)


MODELS_FORM = SoundForm(PCM, SAMPLES_PER_S)
"""The form in which models read sound."""


class PcmReader:
    """Reads the pieces of one stream of one channel."""

    def __init__(self, form: SoundForm = MODELS_FORM) -> None:
        """Raises RequestError where another rate needs PyAV, and it is not installed."""
        self.form = form
        self._resampler = None if form.rate == SAMPLES_PER_S else _resampler()

    def read(self, audio: str) -> Pcm:
        """The samples of one piece; a resampler holds the last few back.  Raises ValueError."""
        samples = self.form.read(base64.b64decode(audio, validate=True))
        return samples if self._resampler is None else self._resampled(samples)

    def _resampled(self, samples: Pcm) -> Pcm:
        from av import AudioFrame

        assert self._resampler is not None
        frame = AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = self.form.rate
        parts = [part.to_ndarray()[0] for part in self._resampler.resample(frame)]
        return np.concatenate([np.empty(0, np.int16), *parts])


def _resampler() -> Any:
    av = import_av(f"takes sound at {SAMPLES_PER_S} samples a second only")
    return av.AudioResampler(format="s16", layout="mono", rate=SAMPLES_PER_S)

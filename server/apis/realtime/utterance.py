"""One utterance: sound that grows until it ends, of which the beginning is dropped once it is text."""

from __future__ import annotations

import asyncio
import secrets

import numpy as np

from pipelines.base.errors import RequestError
from pipelines.nodes.speech.windows import SAMPLES_PER_S, Sound
from server.apis.realtime.loudness import FRAME_SAMPLES, SILENCE, Loudness
from server.apis.realtime.pcm import Pcm

FULL_SCALE = 32768
SAMPLE_BYTES = 2


class HeldSound:
    """Bounds the sound of one socket that is not text yet."""

    def __init__(self, max_seconds: float) -> None:
        self.max_seconds = max_seconds
        self.num_samples = 0

    def add(self, num_samples: int) -> None:
        """Raises RequestError."""
        if self.num_samples + num_samples > self.max_seconds * SAMPLES_PER_S:
            raise RequestError(
                f"More than {self.max_seconds:g} seconds of sound wait to become text; this piece is "
                "dropped.  Send sound no faster than its text comes.",
                field="audio",
                word="invalid_audio",
            )
        self.num_samples += num_samples


class Utterance:
    """Samples are counted from its beginning: `num_samples` have come, the first `num_dropped` are gone."""

    def __init__(self, held: HeldSound) -> None:
        self.id = f"item_{secrets.token_hex(12)}"
        self.num_samples = 0
        self.num_dropped = 0
        self.is_ended = False
        self.is_cleared = False
        self._held = held
        self._data = bytearray()
        self._loudness = Loudness()
        self._levels: list[float] = []  # of each frame
        self._loud: list[bool] = []
        self._changed = asyncio.Event()

    @property
    def duration_s(self) -> float:
        return self.num_samples / SAMPLES_PER_S

    def append(self, samples: Pcm) -> None:
        """Raises RequestError where too much sound waits already."""
        self._held.add(len(samples))
        self._data += samples.tobytes()
        self.num_samples += len(samples)
        levels, loud = self._loudness.push(samples)
        self._levels += levels.tolist()
        self._loud += loud.tolist()
        self._changed.set()

    def end(self) -> None:
        """Nothing more comes."""
        self.is_ended = True
        self._changed.set()

    def clear(self) -> None:
        """No text of it is wanted."""
        self.is_cleared = True
        self.drop(self.num_samples)
        self.end()

    def drop(self, until: int) -> None:
        """The samples before `until` are not needed any more."""
        num_samples = until - self.num_dropped
        del self._data[: num_samples * SAMPLE_BYTES]
        self._held.num_samples -= num_samples
        self.num_dropped = until

    async def grown(self, num_samples: int) -> None:
        """Return once this many samples have come, or the end."""
        while self.num_samples < num_samples and not self.is_ended:
            self._changed.clear()
            await self._changed.wait()

    def sound(self, start: int, end: int) -> Sound:
        first, last = ((at - self.num_dropped) * SAMPLE_BYTES for at in (start, end))
        samples: Sound = np.frombuffer(bytes(self._data[first:last]), np.int16).astype(np.float32)
        return samples / np.float32(FULL_SCALE)

    def is_quiet(self, start: int, end: int) -> bool:
        """Whether no frame within is louder than the noise around it."""
        return not any(self._loud[start // FRAME_SAMPLES : end // FRAME_SAMPLES])

    def is_silent(self, start: int, end: int) -> bool:
        """Whether there is no sound at all."""
        return max(self._levels[start // FRAME_SAMPLES : end // FRAME_SAMPLES], default=0.0) <= SILENCE

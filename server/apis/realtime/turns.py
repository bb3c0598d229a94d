"""Where speech begins and ends in a stream of sound, by its energy."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.nodes.speech.windows import SAMPLES_PER_S
from server.apis.realtime.loudness import FRAME_SAMPLES, Loudness
from server.apis.realtime.pcm import Pcm

BEGINS_FRAMES = 3
"""Speech is loud for this many frames, a click is not."""


class Turn(NamedTuple):
    """Speech begins, or it has ended, `at` samples after the stream's beginning."""

    begins: bool
    at: int


def frames_of(ms: int) -> int:
    """The whole frames in this many milliseconds; at least 1."""
    return max(1, ms * SAMPLES_PER_S // 1000 // FRAME_SAMPLES)


class TurnDetector:
    """Speech ends once it was quiet for `silence_ms`."""

    def __init__(self, threshold: float, silence_ms: int, first: int, speaks: bool = False) -> None:
        """`first` is the number of samples that came before; `speaks`: they were speech that goes on."""
        self._loudness = Loudness(threshold)
        self._silence_frames = frames_of(silence_ms)
        self._first = first
        self._num_frames = 0
        self._run = 0  # last frames of the other kind: loud ones before speech, quiet ones within it
        self.speaks = speaks

    def change(self, threshold: float, silence_ms: int) -> None:
        """Other settings from now on, in the middle of speech too."""
        self._loudness.change(threshold)
        self._silence_frames = frames_of(silence_ms)

    def push(self, samples: Pcm) -> list[Turn]:
        """What the frames that are whole now decide."""
        turns = []
        for is_loud in self._loudness.push(samples)[1].tolist():
            self._num_frames += 1
            self._run = self._run + 1 if is_loud != self.speaks else 0
            if self._run >= (self._silence_frames if self.speaks else BEGINS_FRAMES):
                turns.append(Turn(not self.speaks, self._decided_at))
                self.speaks, self._run = not self.speaks, 0
        return turns

    @property
    def _decided_at(self) -> int:
        """A beginning counts from its first loud frame, an end is now."""
        frames = self._num_frames if self.speaks else self._num_frames - BEGINS_FRAMES
        return self._first + frames * FRAME_SAMPLES

    def stop(self) -> None:
        """The client ended the speech by itself."""
        self.speaks, self._run = False, 0

"""How loud sound is, in frames of 20 ms: where someone speaks, where it is quiet, and where nothing is."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pipelines.nodes.speech.windows import SAMPLES_PER_S
from server.apis.realtime.pcm import Pcm

FRAME_SAMPLES = SAMPLES_PER_S // 50
FLOOR_FRAMES = 150
"""The quietest of these last frames, three seconds, is the noise that is always there."""
SILENCE = 65.0
"""Root mean square of samples below which there is no sound at all: 54 dB below the loudest."""
DB_OF_THRESHOLD = 20.0
"""A threshold of 1 is this much above the noise."""
THRESHOLD = 0.5


class Loudness:
    """Measures the frames of a stream of sound; `threshold`, 0 to 1, is how far above the noise speech is."""

    def __init__(self, threshold: float = THRESHOLD) -> None:
        self.change(threshold)
        self._rest: Pcm = np.empty(0, np.int16)
        self._recent = np.empty(0, np.float32)  # levels of the frames before, at most FLOOR_FRAMES - 1

    def change(self, threshold: float) -> None:
        """Another threshold from now on, above the same noise."""
        self._ratio = 10 ** (threshold * DB_OF_THRESHOLD / 20)

    def push(self, samples: Pcm) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """(levels, whether each is loud) of the frames that are whole now."""
        samples = np.concatenate([self._rest, samples])
        num_whole = len(samples) // FRAME_SAMPLES * FRAME_SAMPLES
        frames, self._rest = samples[:num_whole].reshape(-1, FRAME_SAMPLES), samples[num_whole:]
        levels = np.sqrt(np.mean(np.square(frames, dtype=np.float32), axis=1))
        before = np.full(FLOOR_FRAMES - 1, np.inf, np.float32)
        before[len(before) - len(self._recent) :] = self._recent
        known = np.concatenate([before, levels])
        self._recent = known[-(FLOOR_FRAMES - 1) :]
        if not len(levels):
            return levels, np.empty(0, np.bool_)
        floors = sliding_window_view(known, FLOOR_FRAMES).min(axis=1)
        return levels, (levels > SILENCE) & (levels > floors * self._ratio)

"""Sound in windows that a model can hear: cut where it is quiet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SAMPLES_PER_S = 16_000
SAMPLE_BYTES = 4
WINDOW_SAMPLES = 30 * SAMPLES_PER_S
SEARCHED_SAMPLES = SAMPLES_PER_S
"""The end of a window in which the quietest place is looked for."""
QUIET_SAMPLES = SAMPLES_PER_S // 10
"""How long a quiet place is."""

Sound = NDArray[np.float32]


class Window(NamedTuple):
    """A part of a recording that begins `start_s` seconds after its beginning."""

    start_s: float
    sound: Sound

    @property
    def duration_s(self) -> float:
        return len(self.sound) / SAMPLES_PER_S


def cut(sound: Sound) -> list[Window]:
    """The whole recording in windows of at most 30 seconds, none of them empty.

    A window ends in the middle of the quietest tenth of a second of its last second.
    """
    windows, start = [], 0
    while len(sound) - start > WINDOW_SAMPLES:
        end = start + WINDOW_SAMPLES
        end = end - SEARCHED_SAMPLES + quietest(sound[end - SEARCHED_SAMPLES : end])
        windows.append(Window(start / SAMPLES_PER_S, sound[start:end]))
        start = end
    windows.append(Window(start / SAMPLES_PER_S, sound[start:]))
    return windows


def window_at(sound: Sound, start_s: float) -> Window | None:
    """The 30 seconds from `start_s` on; None at the end of the recording."""
    start = round(start_s * SAMPLES_PER_S)
    rest = sound[start : start + WINDOW_SAMPLES]
    return Window(start / SAMPLES_PER_S, rest) if len(rest) else None


def quietest(sound: Sound) -> int:
    """The sample in the middle of the tenth of a second with the least energy."""
    tenths = sound[: len(sound) // QUIET_SAMPLES * QUIET_SAMPLES].reshape(-1, QUIET_SAMPLES)
    energy = np.einsum("ij,ij->i", tenths, tenths)
    return int(energy.argmin()) * QUIET_SAMPLES + QUIET_SAMPLES // 2

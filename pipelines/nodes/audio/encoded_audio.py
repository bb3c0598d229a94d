"""What is read of one sound: windows for the encoder, and text for the prompt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EncodedAudio:
    """`windows`: float32[windows, num_mels, num_frames]; `text` is in the prompt in the place of the sound's
    mark, with one token for each window.
    """

    windows: NDArray[np.float32]
    text: str

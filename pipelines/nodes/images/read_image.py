"""What is read of one image: pixels for the encoder, and text for the prompt."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from pipelines.values.node_values import Floats, Grid


@dataclass(frozen=True)
class ReadImage:
    """`pixels`: float32[parts, 3, height, width], each part of which has `num_tokens` tokens; or, of an image
    whose parts are `grids` of tokens, float32[num_tokens, …], the tokens of one part after the other.

    `text` is in the prompt in the place of the image's mark, with one token for each part.
    """

    pixels: Floats
    num_tokens: int
    text: str
    grids: tuple[Grid, ...] = ()

    @property
    def parts(self) -> list[Floats]:
        if not self.grids:
            return list(self.pixels)
        ends = accumulate(rows * columns for rows, columns in self.grids)
        return np.split(self.pixels, list(ends)[:-1])

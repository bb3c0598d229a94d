"""What is read of one image: pixels for the encoder, and text for the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.values.node_values import Floats, Grid


@dataclass(frozen=True)
class ReadImage:
    """`pixels`: float32[parts, 3, height, width], each part of which has `num_tokens` tokens; or, of an image
    whose tokens are a `grid`, float32[num_tokens, …], all of them one part.

    `text` is in the prompt in the place of the image's mark, with one token for each part.
    """

    pixels: Floats
    num_tokens: int
    text: str
    grid: Grid | None = None

    @property
    def parts(self) -> list[Floats]:
        return [self.pixels] if self.grid else list(self.pixels)

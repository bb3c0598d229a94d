"""What is read of one image: pixels for the encoder, and text for the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.values import Floats


@dataclass(frozen=True)
class ReadImage:
    """`pixels`: float32[parts, 3, height, width], each part of which has `num_tokens` tokens.

    `text` is in the prompt in the place of the image's mark, with one token for each part.
    """

    pixels: Floats
    num_tokens: int
    text: str

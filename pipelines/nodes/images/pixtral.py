"""Pixtral and Mistral Small 3: an image keeps its shape, and each row of its tokens ends with one more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.nodes.images.colour_scale import ColourScale, read_colour_scale
from pipelines.nodes.images.read_image import ReadImage
from pipelines.nodes.images.token_patches import token_patches

if TYPE_CHECKING:
    from PIL import Image

PROCESSOR = "PixtralImageProcessor"
"""The value of `image_processor_type`, which may end with Fast."""
TOKEN, ROW_END, END = "[IMG]", "[IMG_BREAK]", "[IMG_END]"


@dataclass(frozen=True)
class Pixtral:
    """`longest`: pixels of the longer side of a scaled image; a token is `merge` patches wide and high."""

    token_id: int
    patch: int
    merge: int
    longest: int
    resample: int
    scale: ColourScale
    marks: tuple[str, ...] = (TOKEN, ROW_END, END)

    def read(self, image: Image.Image) -> ReadImage:
        """float32[tokens, numbers of a token's patches], row by row, with zeros at the end of each row."""
        side = self.patch * self.merge
        shrink = max(1.0, max(image.size) / self.longest)
        columns, rows = (-(-math.floor(length / shrink) // side) for length in image.size)
        resized = image.resize((columns * side, rows * side), self.resample)
        pixels = self.scale.scaled(np.asarray(resized))
        tokens = token_patches(pixels, self.patch, self.merge).reshape(rows, columns, -1)
        ended = np.concatenate([tokens, np.zeros_like(tokens[:, :1])], axis=1)
        grid = rows, columns + 1
        return ReadImage(ended.reshape(rows * (columns + 1), -1), rows * (columns + 1), TOKEN, (grid,))


def read_pixtral(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> Pixtral:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    vision, named = config["vision_config"], str(pixels["image_processor_type"]).removesuffix("Fast")
    if named != PROCESSOR:
        raise ValueError(f"image_processor_type {named}; known: {PROCESSOR}")
    return Pixtral(
        token_id=int(config["image_token_id"]),
        patch=int(vision["patch_size"]),
        merge=int(vision["spatial_merge_size"]),
        longest=int(pixels["size"]["longest_edge"]),
        resample=int(pixels["resample"]),
        scale=read_colour_scale(pixels),
    )

"""Gemma 4: an image keeps its shape, and is scaled up or down to nearly as many patches as it may have."""

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

PROCESSOR = "Gemma4ImageProcessor"
TOKEN, BEGIN, END = "<|image|>", "<|image>", "<image|>"


@dataclass(frozen=True)
class Gemma4:
    """An image has at most `most` tokens, each of merge × merge patches."""

    token_id: int
    patch: int
    merge: int
    most: int
    resample: int
    scale: ColourScale
    marks: tuple[str, ...] = (TOKEN,)

    def read(self, image: Image.Image) -> ReadImage:
        """float32[tokens, numbers of a token's patches], row by row of tokens."""
        side = self.patch * self.merge
        grid = rows, columns = fitting_grid(image.size, self.most)
        resized = image.resize((columns * side, rows * side), self.resample)
        pixels = self.scale.scaled(np.asarray(resized))
        tokens = token_patches(pixels, self.patch, self.merge).reshape(rows * columns, -1)
        return ReadImage(tokens, rows * columns, f"{BEGIN}{TOKEN}{END}", (grid,))


def fitting_grid(size: tuple[int, int], most: int) -> tuple[int, int]:
    """(rows, columns) of tokens, as many as have the shape of an image of this (width, height), and not more
    than `most`.
    """
    width, height = size
    factor = math.sqrt(most / (width * height))
    rows, columns = math.floor(factor * height), math.floor(factor * width)
    if not rows:
        return 1, min(width // height, most)
    if not columns:
        return min(height // width, most), 1
    return rows, columns


def read_gemma4(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> Gemma4:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    named = str(pixels["image_processor_type"]).removesuffix("Fast")
    if named != PROCESSOR:
        raise ValueError(f"image_processor_type {named}; known: {PROCESSOR}")
    return Gemma4(
        token_id=int(config["image_token_id"]),
        patch=int(pixels["patch_size"]),
        merge=int(pixels["pooling_kernel_size"]),
        most=int(pixels["max_soft_tokens"]),
        resample=int(pixels["resample"]),
        scale=read_colour_scale(pixels),
    )

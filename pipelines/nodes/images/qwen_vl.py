"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: an image keeps its shape, and squares of patches are its tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.nodes.images.colour_scale import ColourScale, read_colour_scale
from pipelines.nodes.images.read_image import ReadImage
from pipelines.nodes.images.token_patches import token_patches

if TYPE_CHECKING:
    from PIL import Image

PROCESSORS = ("Qwen2VLImageProcessor", "Qwen2_5_VLImageProcessor")
"""Values of `image_processor_type`; each may end with Fast."""
PATCHES = {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
"""Keys of preprocessor_config.json: pixels of a patch's side, patches of a token's side, how many images of
a video a patch has; and what they are where the file does not say so.
"""
TOKEN, VIDEO = "<|image_pad|>", "<|video_pad|>"
BICUBIC = 3
SMALLEST, LARGEST = 56 * 56, 28 * 28 * 1280
"""Pixels of a scaled image where preprocessor_config.json names no others, as in transformers."""


@dataclass(frozen=True)
class QwenVL:
    """`most` and `least`: pixels of a scaled image."""

    token_id: int
    patch: int
    merge: int
    repeats: int
    least: int
    most: int
    resample: int
    scale: ColourScale
    marks: tuple[str, ...] = (TOKEN, VIDEO)

    def read(self, image: Image.Image) -> ReadImage:
        """float32[tokens, numbers of a token's patches], row by row of tokens."""
        side = self.patch * self.merge
        width, height = scaled_size(image.size, side, self.least, self.most)
        grid = rows, columns = height // side, width // side
        pixels = self.scale.scaled(np.asarray(image.resize((width, height), self.resample)))
        patches = token_patches(pixels, self.patch, self.merge)
        in_time = np.repeat(patches[:, :, :, None], self.repeats, axis=3)
        return ReadImage(in_time.reshape(rows * columns, -1), rows * columns, TOKEN, (grid,))

    def at_most(self, num_tokens: int) -> QwenVL:
        side = self.patch * self.merge
        return replace(self, most=max(self.least, min(self.most, num_tokens * side**2)))


def scaled_size(
    size: tuple[int, int], side: int, least: int, most: int, shortest: int = 0
) -> tuple[int, int]:
    """(width, height) in whole tokens of `side` pixels, of nearly the same shape, within the bounds; a side
    is at least `shortest` before the shape is compared with them.
    """
    width, height = (max(shortest, round(length / side) * side) for length in size)
    if width * height > most:
        shrink = math.sqrt(size[0] * size[1] / most)
        width, height = (max(side, math.floor(length / shrink / side) * side) for length in size)
    elif width * height < least:
        grow = math.sqrt(least / (size[0] * size[1]))
        width, height = (math.ceil(length * grow / side) * side for length in size)
    return width, height


def read_qwen_vl(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> QwenVL:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    vision, size = config["vision_config"], pixels.get("size") or {}
    named = str(pixels.get("image_processor_type", PROCESSORS[0])).removesuffix("Fast")
    if named not in PROCESSORS:
        raise ValueError(f"image_processor_type {named}; known: {', '.join(PROCESSORS)}")
    patch, merge, repeats = (int(pixels.get(name, default)) for name, default in PATCHES.items())
    wanted = tuple(int(vision.get(name, PATCHES[name])) for name in ("patch_size", "temporal_patch_size"))
    if (patch, repeats, merge) != (*wanted, int(vision.get("spatial_merge_size", merge))):
        raise ValueError("patch_size, temporal_patch_size and merge_size are not those of vision_config")
    least = pixels.get("min_pixels") or size.get("shortest_edge") or SMALLEST
    most = pixels.get("max_pixels") or size.get("longest_edge") or LARGEST
    return QwenVL(
        token_id=int(config["image_token_id"]),
        patch=patch,
        merge=merge,
        repeats=repeats,
        least=int(least),
        most=int(most),
        resample=int(pixels.get("resample", BICUBIC)),
        scale=read_colour_scale({"rescale_factor": 1 / 255, **pixels}),
    )

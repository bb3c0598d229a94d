"""Images → pixels of one size, as the image processors of CLIP and SigLIP in transformers compute them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.nodes.images.colour_scale import ColourScale, read_colour_scale
from pipelines.values.node_values import Floats

if TYPE_CHECKING:
    from PIL import Image

PROCESSORS = (
    *("CLIPImageProcessor", "CLIPFeatureExtractor", "SiglipImageProcessor"),
    *("LlavaImageProcessor", "Gemma3ImageProcessor"),
)
"""Values of `image_processor_type`; each may end with Fast."""


@dataclass(frozen=True)
class PixelSettings:
    """Settings of preprocessor_config.json: the filter `resample` scales the image so that its shorter side
    is `shorter`, or where that is None to a square; its middle, a square of `side`, is read.
    """

    side: int
    shorter: int | None
    resample: int
    scale: ColourScale


def read_pixel_settings(fields: Mapping[str, Any]) -> PixelSettings:
    """Raises ValueError for settings under which other pixels would be right."""
    named = str(fields.get("image_processor_type", PROCESSORS[0])).removesuffix("Fast")
    if named not in PROCESSORS:
        raise ValueError(f"image_processor_type {named}; known: {', '.join(PROCESSORS)}")
    if fields.get("do_pad"):
        raise ValueError("do_pad: images are not made square by a border")
    scale = read_colour_scale(fields)
    size = _size(fields["size"])
    shorter = size if isinstance(size, int) else None
    crops = fields.get("do_center_crop", "crop_size" in fields)
    crop = _size(fields["crop_size"]) if crops else size
    height, width = (crop, crop) if isinstance(crop, int) else crop
    if height != width or (not crops and shorter is not None):
        raise ValueError("size and crop_size give no square")
    side = height
    if (shorter is None and size != (side, side)) or (shorter is not None and shorter < side):
        raise ValueError("crop_size is not within size")
    return PixelSettings(side, shorter, int(fields["resample"]), scale)


def _size(given: Any) -> int | tuple[int, int]:
    """(height, width), or the shorter side alone."""
    if isinstance(given, int):
        return given
    if "shortest_edge" in given:
        return int(given["shortest_edge"])
    return int(given["height"]), int(given["width"])


def clip_pixels(image: Image.Image, settings: PixelSettings) -> Floats:
    """float32[3, side, side] of an image in RGB."""
    side = settings.side
    scaled = np.asarray(image.resize(_scaled(image.size, settings), settings.resample))
    top, left = ((have - side) // 2 for have in scaled.shape[:2])
    return settings.scale.scaled(scaled[top : top + side, left : left + side])


def _scaled(size: tuple[int, int], settings: PixelSettings) -> tuple[int, int]:
    """(width, height) to scale to."""
    if settings.shorter is None:
        return settings.side, settings.side
    short = min(size)
    width, height = (int(settings.shorter * each / short) for each in size)
    return width, height

"""CLIP and SigLIP: an image of one size becomes one vector, and no prompt shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.nodes.images.clip_pixels import PixelSettings, clip_pixels, read_pixel_settings
from pipelines.nodes.images.llava import ENCODERS
from pipelines.nodes.images.read_image import ReadImage

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class DualEncoder:
    """`num_tokens`: what the vision model makes of an image, which usage counts."""

    num_tokens: int
    settings: PixelSettings
    token_id: int = -1
    marks: tuple[str, ...] = ()

    def read(self, image: Image.Image) -> ReadImage:
        return ReadImage(clip_pixels(image, self.settings)[None], self.num_tokens, "")


def read_dual_encoder(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> DualEncoder:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    vision, settings = config["vision_config"], read_pixel_settings(pixels)
    side, patch = vision["image_size"], vision["patch_size"]
    if settings.side != side:
        raise ValueError(f"the model reads images of {side} pixels, and they are made of {settings.side}")
    return DualEncoder((side // patch) ** 2 + ENCODERS[f"{config['model_type']}_vision_model"], settings)

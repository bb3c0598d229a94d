"""LLaVA 1.5: an image of one size, whose patches are its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.nodes.images.clip_pixels import PixelSettings, clip_pixels, read_pixel_settings
from pipelines.nodes.images.read_image import ReadImage

if TYPE_CHECKING:
    from PIL import Image

ENCODERS = {"clip_vision_model": 1, "siglip_vision_model": 0}
"""Type of the vision model → how many embeddings it gives beside those of patches."""
TOKEN = "<image>"


@dataclass(frozen=True)
class Llava:
    token_id: int
    num_tokens: int
    settings: PixelSettings
    marks: tuple[str, ...] = (TOKEN,)

    def read(self, image: Image.Image) -> ReadImage:
        return ReadImage(clip_pixels(image, self.settings)[None], self.num_tokens, TOKEN)


def read_llava(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> Llava:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    vision, settings = config["vision_config"], read_pixel_settings(pixels)
    kind, side, patch = vision.get("model_type"), vision["image_size"], vision["patch_size"]
    if kind not in ENCODERS:
        raise ValueError(f"vision_config.model_type {kind} is not read; known: {', '.join(ENCODERS)}")
    if settings.side != side:
        raise ValueError(f"the model reads images of {side} pixels, and they are made of {settings.side}")
    drops_first = config.get("vision_feature_select_strategy", "default") == "default"
    num_tokens = (side // patch) ** 2 + ENCODERS[kind] - drops_first
    token = config.get("image_token_id", config.get("image_token_index"))
    if not isinstance(token, int):
        raise ValueError("image_token_index is missing")
    return Llava(token, num_tokens, settings)

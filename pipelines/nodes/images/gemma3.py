"""Gemma 3: an image of one size, whose tokens stand between two others and blank lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.nodes.images.clip_pixels import PixelSettings, clip_pixels, read_pixel_settings
from pipelines.nodes.images.read_image import ReadImage

if TYPE_CHECKING:
    from PIL import Image

MARK, TOKEN, END = "<start_of_image>", "<image_soft_token>", "<end_of_image>"


@dataclass(frozen=True)
class Gemma3:
    token_id: int
    num_tokens: int
    settings: PixelSettings
    marks: tuple[str, ...] = (MARK, TOKEN)

    def read(self, image: Image.Image) -> ReadImage:
        pixels = clip_pixels(image, self.settings)[None]
        return ReadImage(pixels, self.num_tokens, f"\n\n{MARK}{TOKEN}{END}\n\n")


def read_gemma3(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> Gemma3:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    if pixels.get("do_pan_and_scan"):
        raise ValueError("do_pan_and_scan: true; images are read as a whole, not in crops: set it to false")
    settings, side = read_pixel_settings(pixels), config["vision_config"]["image_size"]
    if settings.side != side or settings.shorter is not None:
        raise ValueError(f"the model reads whole images of {side} × {side} pixels")
    num_tokens, text = int(config["mm_tokens_per_image"]), config.get("text_config") or {}
    if (window := text.get("sliding_window")) and window < num_tokens:
        raise ValueError(
            f"sliding_window {window}: the {num_tokens} tokens of an image attend to one another at any "
            "distance, which is not computed"
        )
    token = config.get("image_token_id", config.get("image_token_index"))
    if not isinstance(token, int):
        raise ValueError("image_token_index is missing")
    return Gemma3(token, num_tokens, settings)

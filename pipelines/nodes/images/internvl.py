"""InternVL: the tiles of an image, as many and in such rows as fit its shape, and then the whole image in the
size of one tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.nodes.images.colour_scale import ColourScale, read_colour_scale
from pipelines.nodes.images.read_image import ReadImage
from pipelines.nodes.images.tile_grids import best_grid, tile_grids

if TYPE_CHECKING:
    from PIL import Image

MARK, TOKEN, BEGIN, END = "<image>", "<IMG_CONTEXT>", "<img>", "</img>"
BICUBIC = 3


@dataclass(frozen=True)
class InternVL:
    """`grids` are the (columns, rows) of tiles that an image may have, those of fewer tiles first; an image
    of several tiles is read as a whole too where `thumbnail`.
    """

    token_id: int
    num_tokens: int
    side: int
    grids: tuple[tuple[int, int], ...]
    thumbnail: bool
    scale: ColourScale
    marks: tuple[str, ...] = (MARK, TOKEN)

    def read(self, image: Image.Image) -> ReadImage:
        side = self.side
        columns, rows = best_grid(image.size, self.grids, side)
        whole = image.resize((columns * side, rows * side), BICUBIC)
        parts = [
            whole.crop((column * side, row * side, (column + 1) * side, (row + 1) * side))
            for row, column in product(range(rows), range(columns))
        ]
        if self.thumbnail and len(parts) > 1:
            parts.append(image.resize((side, side), BICUBIC))
        pixels = np.stack([self.scale.scaled(np.asarray(part)) for part in parts])
        return ReadImage(pixels, self.num_tokens, f"{BEGIN}{TOKEN * len(parts)}{END}")


def read_internvl(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> InternVL:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    vision = config["vision_config"]
    side, shrink = int(vision["image_size"]), float(config.get("downsample_ratio", 0.5))
    if config.get("force_image_size", side) != side:
        raise ValueError(
            f"force_image_size {config['force_image_size']}: its vision model reads {side} pixels"
        )
    most = int(config.get("max_dynamic_patch", 6)) if config.get("dynamic_image_size") else 1
    return InternVL(
        token_id=int(config["img_context_token_id"]),
        num_tokens=int((side // vision["patch_size"]) ** 2 * shrink**2),
        side=side,
        grids=tile_grids(int(config.get("min_dynamic_patch", 1)), most),
        thumbnail=bool(config.get("use_thumbnail")),
        scale=read_colour_scale({"rescale_factor": 1 / 255, **pixels}),
    )

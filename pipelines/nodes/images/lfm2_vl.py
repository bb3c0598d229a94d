"""LFM2-VL: an image keeps its shape; a large one is its tiles in rows, and then the whole image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.nodes.images.colour_scale import ColourScale, read_colour_scale
from pipelines.nodes.images.qwen_vl import scaled_size
from pipelines.nodes.images.read_image import ReadImage
from pipelines.nodes.images.tile_grids import best_grid, tile_grids
from pipelines.nodes.images.token_patches import token_patches

if TYPE_CHECKING:
    from PIL import Image

PROCESSOR = "Lfm2VlImageProcessor"
"""The value of `image_processor_type`, which may end with Fast."""
TOKEN, BEGIN, END, WHOLE = "<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"
MAX_TILE = 1024
"""Pixels of a side."""


@dataclass(frozen=True)
class Lfm2VL:
    """The whole image has `least` to `most` pixels.  One that in whole tokens has more than `largest` is
    split too, into one of `grids` of (columns, rows) of tiles of `tile` pixels a side.
    """

    token_id: int
    patch: int
    merge: int
    least: int
    most: int
    largest: float
    tile: int
    grids: tuple[tuple[int, int], ...]
    resample: int
    scale: ColourScale
    marks: tuple[str, ...] = (TOKEN,)

    def read(self, image: Image.Image) -> ReadImage:
        """float32[tokens, numbers of a token's patches], tile after tile, each row by row of tokens."""
        side = self.patch * self.merge
        whole = image.resize(scaled_size(image.size, side, self.least, self.most, side), self.resample)
        width, height = (max(self.patch, round(length / side) * side) for length in image.size)
        if not self.grids or width * height <= self.largest:
            parts, text = [whole], TOKEN
        else:
            columns, rows = best_grid(image.size, self.grids, self.tile)
            parts, text = [*self._tiles(image, columns, rows), whole], _rows_text(rows, columns)
        tokens = [
            token_patches(self.scale.scaled(np.asarray(part)), self.patch, self.merge) for part in parts
        ]
        flat = np.concatenate(tokens)
        grids = tuple((part.height // side, part.width // side) for part in parts)
        return ReadImage(flat.reshape(len(flat), -1), len(flat), f"{BEGIN}{text}{END}", grids)

    def _tiles(self, image: Image.Image, columns: int, rows: int) -> Iterator[Image.Image]:
        tile = self.tile
        resized = image.resize((columns * tile, rows * tile), self.resample)
        for row, column in product(range(rows), range(columns)):
            yield resized.crop((column * tile, row * tile, (column + 1) * tile, (row + 1) * tile))


def _rows_text(rows: int, columns: int) -> str:
    tiles = (
        f"<|img_row_{row + 1}_col_{column + 1}|>{TOKEN}" for row in range(rows) for column in range(columns)
    )
    return f"{''.join(tiles)}{WHOLE}{TOKEN}"


def read_lfm2_vl(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> Lfm2VL:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    named = str(pixels["image_processor_type"]).removesuffix("Fast")
    if named != PROCESSOR:
        raise ValueError(f"image_processor_type {named}; known: {PROCESSOR}")
    if not pixels.get("use_thumbnail", True):
        raise ValueError("use_thumbnail: false, which is not computed")
    patch, merge, tile = (
        int(pixels[name]) for name in ("encoder_patch_size", "downsample_factor", "tile_size")
    )
    if tile % (patch * merge) or not 0 < tile <= MAX_TILE:
        raise ValueError(f"tile_size {tile} is no multiple of {patch * merge} up to {MAX_TILE}")
    least, most = (int(pixels[f"{end}_image_tokens"]) * (patch * merge) ** 2 for end in ("min", "max"))
    fewest, many = int(pixels["min_tiles"]), int(pixels["max_tiles"])
    splits = pixels.get("do_image_splitting", True) and not fewest == many == 1
    return Lfm2VL(
        token_id=int(config["image_token_id"]),
        patch=patch,
        merge=merge,
        least=least,
        most=most,
        largest=most * float(pixels["max_pixels_tolerance"]),
        tile=tile,
        grids=tile_grids(fewest, many) if splits else (),
        resample=int(pixels["resample"]),
        scale=read_colour_scale(pixels),
    )

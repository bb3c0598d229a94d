"""Idefics3 and SmolVLM: the tiles of an image in rows, and then the whole image in the size of one tile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.nodes.images.colour_scale import ColourScale, read_colour_scale
from pipelines.nodes.images.read_image import ReadImage

if TYPE_CHECKING:
    from PIL import Image

PROCESSORS = ("Idefics3ImageProcessor", "SmolVLMImageProcessor")
"""Values of `image_processor_type`; each may end with Fast."""
TOKEN, AROUND, WHOLE = "<image>", "<fake_token_around_image>", "<global-img>"
MAX_LONGEST = 4096
"""Pixels of the longer side: the image processor scales longer ones once more."""


@dataclass(frozen=True)
class Idefics3:
    """An image is scaled so that its longer side is `longest`, then to a whole number of tiles of `side`
    pixels, where it is split.
    """

    token_id: int
    num_tokens: int
    side: int
    longest: int
    splits: bool
    resample: int
    scale: ColourScale
    marks: tuple[str, ...] = (TOKEN,)

    def read(self, image: Image.Image) -> ReadImage:
        image = image.resize(longest_size(image.size, self.longest), self.resample)
        rows = columns = 1
        if self.splits:
            size = tiled_size(image.size, self.side)
            image = image.resize(size, self.resample)
            columns, rows = (length // self.side for length in size)
        whole = image.resize((self.side, self.side), self.resample)
        if rows == columns == 1:
            tiles, text = [], f"{AROUND}{WHOLE}{TOKEN}{AROUND}"
        else:
            tiles, text = list(self._tiles(image, rows, columns)), _rows_text(rows, columns)
        pixels = [self.scale.scaled(np.asarray(tile)) for tile in (*tiles, whole)]
        return ReadImage(np.stack(pixels), self.num_tokens, text)

    def _tiles(self, image: Image.Image, rows: int, columns: int) -> Iterator[Image.Image]:
        side = self.side
        for row, column in product(range(rows), range(columns)):
            yield image.crop((column * side, row * side, (column + 1) * side, (row + 1) * side))


def read_idefics3(config: Mapping[str, Any], pixels: Mapping[str, Any]) -> Idefics3:
    """Raises ValueError, KeyError or TypeError for a model that reads images in another way."""
    named = str(pixels.get("image_processor_type", PROCESSORS[0])).removesuffix("Fast")
    if named not in PROCESSORS:
        raise ValueError(f"image_processor_type {named}; known: {', '.join(PROCESSORS)}")
    vision, side, longest = (
        config["vision_config"],
        pixels["max_image_size"]["longest_edge"],
        pixels["size"]["longest_edge"],
    )
    if vision["image_size"] != side:
        raise ValueError(f"the model reads images of {vision['image_size']} pixels, not of {side}")
    if longest > MAX_LONGEST:
        raise ValueError(f"size.longest_edge is {longest}; at most {MAX_LONGEST} pixels are read")
    return Idefics3(
        token_id=int(config["image_token_id"]),
        num_tokens=(side // vision["patch_size"]) ** 2 // int(config["scale_factor"]) ** 2,
        side=side,
        longest=longest,
        splits=bool(pixels.get("do_image_splitting", True)),
        resample=int(pixels["resample"]),
        scale=read_colour_scale(pixels),
    )


def longest_size(size: tuple[int, int], longest: int) -> tuple[int, int]:
    """(width, height) of an image whose longer side is `longest`; the shorter is made even."""
    width, height = size
    if width >= height:
        return longest, max(_even(int(longest / (width / height))), 1)
    return max(_even(int(longest * (width / height))), 1), longest


def _even(length: int) -> int:
    return length + length % 2


def tiled_size(size: tuple[int, int], side: int) -> tuple[int, int]:
    """(width, height) of whole tiles."""
    width, height = size
    ratio = width / height
    if width >= height:
        width = _whole(width, side)
        return width, _whole(int(width / ratio), side)
    height = _whole(height, side)
    return _whole(int(height * ratio), side), height


def _whole(length: int, side: int) -> int:
    return max(-(-length // side), 1) * side


def _rows_text(rows: int, columns: int) -> str:
    tiles = "".join(
        "".join(f"{AROUND}<row_{row}_col_{column}>{TOKEN}" for column in range(1, columns + 1)) + "\n"
        for row in range(1, rows + 1)
    )
    return f"{tiles}\n{AROUND}{WHOLE}{TOKEN}{AROUND}"

"""Image files → pixels in RGB, checked before they are decoded, and watched while they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import BadImage, BraidError
from pipelines.nodes.watched_file import WatchedFile

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
SCANNED = ("JPEG", "MPO")
"""What Pillow calls JPEGs: of one image, and with further ones."""
MAX_ASPECT = 200
"""How many times longer an image may be than wide: the shorter side is scaled to the model's size."""
MAX_SCANS, MAX_SCANNED_PIXELS = 500, 1 << 30
"""The most scans of a JPEG: each goes over all pixels, in few bytes.  Encoders write about ten."""
START_OF_SCAN = b"\xff\xda"
BLOCK_BYTES = 1 << 14
"""How much of a file Pillow decodes between two looks at the time and at the client."""
INSTALL = "install Pillow with pip install 'braid-server[vision]' and restart the server"


@dataclass(frozen=True)
class ImageLimits:
    """Bytes of a file, and pixels of an image, which are counted before it is decoded.

    `max_seconds` of processor time: decoding, which the pixels bound for whole files, may take no longer.
    """

    max_bytes: int
    max_pixels: int
    max_seconds: float = 10.0


def import_pillow() -> Any:
    """Raises ValueError where it is not installed."""
    try:
        import PIL.ImageOps
    except ImportError as error:
        raise ValueError(f"images are read with Pillow, which is not installed: {INSTALL}") from error
    return PIL


def decode_image(data: bytes, limits: ImageLimits, where: str) -> Image.Image:
    """The image, or the first one of an animation, in RGB and turned as its EXIF data says.

    What is transparent is put on white, as vLLM does.  Raises RequestError.
    """
    pillow = import_pillow()
    bombs = (pillow.Image.DecompressionBombError, pillow.Image.DecompressionBombWarning)
    try:
        with pillow.Image.open(_watched(data, limits, where), formats=FORMATS) as file:
            check_size(file.size, limits, where)
            if file.format in SCANNED:
                _check_scans(data, file.size, where)
            file.decodermaxblock = BLOCK_BYTES
            turned: Image.Image = pillow.ImageOps.exif_transpose(file)
            return _on_white(pillow, turned) if turned.has_transparency_data else turned.convert("RGB")
    except BraidError:
        raise
    except bombs:
        raise _too_large("very many", limits, where) from None
    except pillow.UnidentifiedImageError:
        raise BadImage(f"`{where}`: this is no image; allowed: {', '.join(FORMATS)}", where) from None
    except Exception as error:  # of damaged files; Pillow raises errors of all kinds
        raise BadImage(f"`{where}`: the image cannot be decoded: {error}", where) from None


def _watched(data: bytes, limits: ImageLimits, where: str) -> WatchedFile:
    too_long = BadImage(
        f"`{where}`: the image takes longer than {limits.max_seconds:g} seconds to decode; write it again, "
        "as PNG or JPEG",
        where,
    )
    return WatchedFile(data, limits.max_seconds, too_long, time.thread_time)


def _check_scans(data: bytes, size: tuple[int, int], where: str) -> None:
    """Raise RequestError for a JPEG whose scans go over too many pixels, in sum.

    Those of previews in the file count too, of which there are few.
    """
    scans = data.count(START_OF_SCAN)
    if scans > MAX_SCANS or scans * size[0] * size[1] > MAX_SCANNED_PIXELS:
        raise BadImage(
            f"`{where}`: the JPEG has {scans} scans; at most {MAX_SCANS}, and "
            f"{MAX_SCANNED_PIXELS / 1e6:.0f} million pixels in all scans together, are read: write it again, "
            "without progression",
            where,
        )


def _on_white(pillow: Any, image: Image.Image) -> Image.Image:
    colours = image.convert("RGBA")
    white: Image.Image = pillow.Image.new("RGB", image.size, "white")
    white.paste(colours, mask=colours.getchannel("A"))
    return white


def check_size(size: tuple[int, int], limits: ImageLimits, where: str) -> None:
    """Raise RequestError for an image of too many pixels, or a line."""
    width, height = size
    if width * height > limits.max_pixels:
        raise _too_large(f"{width} × {height}", limits, where)
    if max(size) > MAX_ASPECT * min(size):
        raise BadImage(
            f"`{where}`: the image has {width} × {height} pixels; one side may be at most {MAX_ASPECT} times "
            "as long as the other",
            where,
        )


def _too_large(pixels: str, limits: ImageLimits, where: str) -> BadImage:
    return BadImage(
        f"`{where}`: the image has {pixels} pixels; at most {limits.max_pixels / 1e6:g} million are read",
        where,
    )

"""Image files → pixels in RGB, checked before they are decoded."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import RequestError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_ASPECT = 200
"""How many times longer an image may be than wide: the shorter side is scaled to the model's size."""
INSTALL = "install Pillow with pip install 'braid-server[vision]' and restart the server"


@dataclass(frozen=True)
class ImageLimits:
    """Bytes of a file, and pixels of an image, which are counted before it is decoded."""

    max_bytes: int
    max_pixels: int


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
        with pillow.Image.open(io.BytesIO(data), formats=FORMATS) as file:
            check_size(file.size, limits, where)
            turned: Image.Image = pillow.ImageOps.exif_transpose(file)
            return _on_white(pillow, turned) if turned.has_transparency_data else turned.convert("RGB")
    except RequestError:
        raise
    except bombs:
        raise _too_large("very many", limits, where) from None
    except pillow.UnidentifiedImageError:
        raise RequestError(f"`{where}`: this is no image; allowed: {', '.join(FORMATS)}", where) from None
    except Exception as error:  # of damaged files; Pillow raises errors of all kinds
        raise RequestError(f"`{where}`: the image cannot be decoded: {error}", where) from None


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
        raise RequestError(
            f"`{where}`: the image has {width} × {height} pixels; one side may be at most {MAX_ASPECT} times "
            "as long as the other",
            where,
        )


def _too_large(pixels: str, limits: ImageLimits, where: str) -> RequestError:
    return RequestError(
        f"`{where}`: the image has {pixels} pixels; at most {limits.max_pixels / 1e6:g} million are read",
        where,
    )

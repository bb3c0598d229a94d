"""`python -m tools.read_text PICTURE`: prints the lines of text in a picture, as a client of `make demo-ocr`.

One request to the model `ocr/det` marks where text is; its lines are cut out, and one request to `ocr/rec`
reads all of them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import onnx
from PIL import Image, ImageOps

from tools.client.http_client import HttpClient, RequestFailed

TIMEOUT_S = 60
LEAST_SIDE, LARGEST_SIDE, STRIDE = 736, 2000, 32
"""The picture that `ocr/det` gets: its sides in pixels, and what divides them."""
LIKELY, WIDENED = 0.3, 1.6
"""From which share a pixel is text; how far text reaches beyond its marks, as area by outline."""
HEIGHT, LEAST_WIDTH = 48, 320
"""A line that `ocr/rec` gets, in pixels."""
Box = tuple[int, int, int, int]


@click.command()
@click.argument("picture", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The server.")
@click.option("--key", default="none", help="An API key, where the server wants one.")
@click.option(
    "--characters",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default="model_repo/ocr/rec/model.onnx",
    show_default=True,
    help="The file that names the characters.",
)
def main(picture: Path, url: str, key: str, characters: Path) -> None:
    """Print the lines of text in PICTURE, each with its left, top, right and bottom pixel."""
    image = ImageOps.exif_transpose(Image.open(picture)).convert("RGB")
    try:
        for text, box in read_text(url, key, image, known_characters(characters)):
            click.echo(f"{text}\t{' '.join(map(str, box))}")
    except (OSError, RequestFailed, ValueError) as error:
        click.echo(f"{url} read nothing: {error}", err=True)
        sys.exit(2)


def read_text(url: str, key: str, image: Image.Image, characters: list[str]) -> list[tuple[str, Box]]:
    """(text, box) of each line, from top to bottom.  Raises RequestFailed, and ValueError for
    a URL that is none and a reply that cannot be read.
    """
    likely = infer(url, key, "ocr/det", pixels(image, *finding_size(*image.size))[None])[0, 0]
    boxes = [wider(box, likely.shape, image.size) for box in cut(likely > LIKELY)]
    if not boxes:
        return []
    lines = [image.crop(box) for box in boxes]
    widths = [math.ceil(HEIGHT * line.width / line.height) for line in lines]
    batch = np.zeros((len(lines), 3, HEIGHT, max(LEAST_WIDTH, *widths)), np.float32)
    for row, line, width in zip(batch, lines, widths, strict=True):
        row[:, :, :width] = pixels(line, width, HEIGHT)
    shares = infer(url, key, "ocr/rec", batch)
    return [(decode(row, characters), box) for row, box in zip(shares.argmax(2), boxes, strict=True)]


def finding_size(width: int, height: int) -> tuple[int, int]:
    """The size that a picture is scaled to before text is looked for."""
    scale = min(max(1.0, LEAST_SIDE / min(width, height)), LARGEST_SIDE / max(width, height))
    return tuple(max(STRIDE, round(side * scale / STRIDE) * STRIDE) for side in (width, height))  # type: ignore


def pixels(image: Image.Image, width: int, height: int) -> np.ndarray:
    """float32 [3, height, width] from -1 to 1, blue first."""
    scaled = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR), np.float32)
    return scaled[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1


def cut(marks: np.ndarray, top: int = 0, left: int = 0) -> Iterator[Box]:
    """Boxes around what is marked: empty rows part it, then empty columns, until nothing does."""
    parts = [(a, b, c, d) for a, b in runs(marks.any(1)) for c, d in runs(marks[a:b].any(0))]
    if len(parts) == 1:
        a, b, c, d = parts[0]
        yield left + c, top + a, left + d, top + b
        return
    for a, b, c, d in parts:
        yield from cut(marks[a:b, c:d], top + a, left + c)


def runs(marked: np.ndarray) -> list[tuple[int, int]]:
    """(first, end) of each stretch of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]


def wider(box: Box, map_size: tuple[int, ...], size: tuple[int, int]) -> Box:
    """The box as the text is, in pixels of the picture: marks cover the middle of letters only."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    more = WIDENED * width * height / (2 * (width + height))
    across, down = size[0] / map_size[1], size[1] / map_size[0]
    return (
        max(0, math.floor((left - more) * across)),
        max(0, math.floor((top - more) * down)),
        min(size[0], math.ceil((right + more) * across)),
        min(size[1], math.ceil((bottom + more) * down)),
    )


def decode(best: np.ndarray, characters: list[str]) -> str:
    """The text of the best character of each column: repeated ones count once, and 0 is none (CTC)."""
    changes = best[np.diff(best, prepend=0) != 0]
    return "".join(characters[place - 1] for place in changes if place > 0)


def known_characters(path: Path) -> list[str]:
    """What the places of `ocr/rec`'s output stand for, from the second one on."""
    properties = {item.key: item.value for item in onnx.load(str(path)).metadata_props}
    return [*properties["character"].splitlines(), " "]


def infer(url: str, key: str, model: str, array: np.ndarray) -> np.ndarray:
    """A model's only output for its only input, both as bytes behind JSON."""
    tensor = {"name": "x", "datatype": "FP32", "shape": array.shape}
    tensor["parameters"] = {"binary_data_size": array.nbytes}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head)), "Authorization": f"Bearer {key}"}
    body = head + np.ascontiguousarray(array).tobytes()
    client = HttpClient(url, TIMEOUT_S)
    with client.reply("POST", f"{client.path}/v2/models/{model}/infer", body, headers) as response:
        reply, length = response.read(), int(response.headers["Inference-Header-Content-Length"])
    (output,) = json.loads(reply[:length])["outputs"]
    return np.frombuffer(reply[length:], np.float32).reshape(output["shape"])


if __name__ == "__main__":
    main()

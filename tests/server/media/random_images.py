"""Random bodies with images, valid and spoiled at any level: files, URLs, parts, bodies."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from functools import cache
from random import Random
from typing import Any

import numpy as np
from PIL import Image

SIZES = (0, 1, 2, 199, 50_000, 2**16, 2**31 - 1, 2**32 - 1)
OTHER_FILES = (
    b"",
    b"%PDF-1.7",
    b"BM" + bytes(60),
    b"II*\0" + bytes(40),
    b"<svg xmlns='x'/>",
    b"\xff\xd8\xff",
)
HEADS = (
    *(
        "data:image/png;base64,",
        "DATA:image/jpeg;charset=x;BASE64,",
        "data:;base64,",
        "data:text/html;base64,",
    ),
    *("data:image/png,", "data:image/png;base64", "data:,", "file:///etc/passwd?", "http://127.0.0.1/"),
    *(
        "ftp://a/",
        "//",
        "javascript:",
        "data:image/png;base64,data:image/png;base64,",
        "blob:",
        " data:a;base64,",
    ),
)
ODD = (
    None,
    True,
    0,
    -1,
    1e308,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    {"url": {}},
    {"url": []},
    ["data:,x"],
    "a" * 9_000,
)


@cache
def whole_files() -> tuple[bytes, ...]:
    """Small images of each format and mode."""
    noise = np.random.default_rng(0).integers(0, 256, (30, 41, 4), np.uint8)
    colours, alpha = Image.fromarray(noise[..., :3]), Image.fromarray(noise)
    frames: dict[str, Any] = {"save_all": True, "append_images": [colours.rotate(90)]}
    saved = [
        *((colours, "PNG", {}), (alpha, "PNG", {}), (colours.quantize(16), "PNG", {"transparency": 3})),
        *((colours, "JPEG", {}), (colours.convert("CMYK"), "JPEG", {}), (colours.convert("L"), "JPEG", {})),
        *((alpha, "WEBP", {}), (colours, "WEBP", frames), (colours.quantize(8), "GIF", frames)),
        *((colours.convert("1"), "PNG", {}), (colours.resize((1, 1)), "PNG", {})),
        (Image.fromarray(noise[..., 0].astype(np.uint16) * 200), "PNG", {}),
    ]
    return tuple(_saved(*image_saved) for image_saved in saved)


def _saved(image: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def random_body(draw: Random) -> tuple[str, dict[str, Any]]:
    """(path, body)"""
    parts = [_part(draw) for _ in range(draw.choice((1, 1, 1, 2, 3, 12)))]
    if draw.random() < 0.05:
        parts.insert(0, draw.choice(ODD))  # type: ignore[arg-type]
    path = draw.choice(("/v1/chat/completions", "/v3/chat/completions", "/v1/responses", "/v1/messages"))
    messages: list[dict[str, Any]] = [{"role": "user", "content": parts}]
    if path == "/v1/responses":
        return path, {
            "model": "tiny",
            "store": False,
            "input": [{**messages[0], "content": _as_responses(parts)}],
        }
    if path == "/v1/messages":
        blocks = [_as_block(draw, part) for part in parts]
        return path, {"model": "tiny", "max_tokens": 5, "messages": [{"role": "user", "content": blocks}]}
    body = {"model": "tiny", "messages": messages}
    if draw.random() < 0.1:
        body["mm_hashes"] = draw.choice((["a"] * len(parts), ["a"], [None], "a", [1], {}))
    return path, body


def _part(draw: Random) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "image_url", "image_url": {"url": _url(draw)}}
    for spoil in draw.sample(SPOILS, draw.choice((0, 0, 0, 1, 2))):
        spoil(draw, part)
    return part


def _url_alone(draw: Random, part: dict[str, Any]) -> None:
    part["image_url"] = _url(draw)


def _odd_field(draw: Random, part: dict[str, Any]) -> None:
    part[draw.choice(("type", "image_url", "uuid", "detail", "text", "cache_control", "url"))] = draw.choice(
        ODD
    )


def _odd_url(draw: Random, part: dict[str, Any]) -> None:
    part["image_url"] = {draw.choice(("url", "detail", "URL")): draw.choice(ODD), "url": _url(draw)}


def _name(draw: Random, part: dict[str, Any]) -> None:
    part["uuid"] = draw.choice(("a", "b", "\0", "é" * 3_000))
    if draw.random() < 0.5:
        part["image_url"] = None


def _deep(draw: Random, part: dict[str, Any]) -> None:
    value: Any = {"url": _url(draw)}
    for _ in range(draw.choice((1, 60))):
        value = draw.choice(([value], {"url": value}))
    part["image_url"] = value


SPOILS = (_url_alone, _odd_field, _odd_url, _name, _deep)


def _url(draw: Random) -> str:
    data = base64.b64encode(_file(draw)).decode()
    head = HEADS[0] if draw.random() < 0.8 else draw.choice(HEADS)
    if draw.random() < 0.1:
        place = draw.randrange(len(data) + 1)
        data = (
            data[:place]
            + draw.choice(("*", "=", "\n", " ", "é", "%3D", "A"))
            + data[place + draw.randrange(3) :]
        )
    return head + data


def _file(draw: Random) -> bytes:
    data = bytearray(draw.choice(whole_files()))
    change = draw.randrange(8)
    if change == 0:
        return bytes(data[: draw.randrange(len(data))])
    if change == 1:
        for _ in range(draw.choice((1, 3, 30))):
            data[draw.randrange(len(data))] = draw.randrange(256)
    elif change == 2:
        place = draw.randrange(len(data))
        data[place:place] = bytes(data[:100]) * draw.choice((1, 20))
    elif change == 3:
        return _png(draw.choice(SIZES), draw.choice(SIZES), draw)
    elif change == 4:
        return draw.choice(OTHER_FILES)
    return bytes(data)


def _png(width: int, height: int, draw: Random) -> bytes:
    """A PNG that says it has this size, with rows that are few, or very many when they are unpacked."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(
        ">IIBBBBB", width, height, draw.choice((1, 8, 16, 7)), draw.choice((0, 2, 3, 6, 9)), 0, 0, 0
    )
    rows = zlib.compress(bytes(draw.choice((10, 300_000))))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _as_responses(parts: list[Any]) -> list[Any]:
    return [
        {**part, "type": "input_image"}
        if isinstance(part, dict) and part.get("type") == "image_url"
        else part
        for part in parts
    ]


def _as_block(draw: Random, part: Any) -> Any:
    url = part.get("image_url") if isinstance(part, dict) else None
    url = url.get("url") if isinstance(url, dict) else url
    if not isinstance(url, str):
        return {"type": "image", "source": url}
    if draw.random() < 0.2:
        return {"type": "image", "source": {"type": draw.choice(("url", "base64", "file", 5)), "url": url}}
    source = {
        "type": "base64",
        "media_type": draw.choice(("image/png", "x", "")),
        "data": url.partition(",")[2],
    }
    return {"type": "image", "source": source}

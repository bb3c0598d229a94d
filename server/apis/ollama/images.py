"""Images of Ollama's messages: base64 without a data URL around it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from pipelines.base.errors import RequestError

SIGNATURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp", b"BM": "bmp"}
"""How files begin → the name of their format."""


def image_parts(images: Iterable[str], where: str) -> list[dict[str, Any]]:
    """Images as parts of a message.  Raises RequestError for what is not base64."""
    return [
        {"type": "image_url", "image_url": {"url": _data_url(each, f"{where}.{i}")}}
        for i, each in enumerate(images)
    ]


def _data_url(image: str, where: str) -> str:
    try:
        start = base64.b64decode(image[:16], validate=True)
        base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"illegal base64 data in `{where}`: {error}", field=where) from None
    kind = next((name for begin, name in SIGNATURES.items() if start.startswith(begin)), "png")
    return f"data:image/{kind};base64,{image}"

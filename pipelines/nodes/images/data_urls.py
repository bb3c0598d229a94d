"""The bytes of an image or a sound in a `data:` URL."""

from __future__ import annotations

import base64
import binascii

from pipelines.base.errors import RequestError


def read_data_url(url: str, max_bytes: int, where: str) -> bytes:
    """Raises RequestError, which names the field `where`; with vLLM's text where it has one."""
    scheme, _, rest = url.partition(":")
    if scheme.lower() != "data":
        raise RequestError(f"`{where}`: The URL must be either a HTTP, data or file URL.", where)
    head, comma, text = rest.partition(",")
    if not comma:
        raise RequestError(f"`{where}`: Invalid data URL format: missing ',' separator.", where)
    if not head.lower().endswith(";base64"):
        raise RequestError(f"`{where}`: Only base64 data URLs are supported for now.", where)
    num_bytes = len(text) // 4 * 3
    if num_bytes > max_bytes:
        size, most = num_bytes / 1e6, max_bytes / 1e6
        raise RequestError(f"`{where}`: the file has {size:.1f} MB; at most {most:g} MB are read", where)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"`{where}`: Invalid base64 data: {error}", where) from None

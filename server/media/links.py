"""What of a request's images and sounds is named by a URL, and is not in the request itself."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.values.tasks import MediaInput

SCHEMES = ("http", "https", "file")
"""The schemes of what can be fetched; an image in the request itself has a data: URL."""


def scheme_of(url: str) -> str:
    return url[:8].partition(":")[0].lower()


def named_elsewhere(images: Sequence[MediaInput]) -> list[MediaInput]:
    """The URLs of what is not in the request itself; each URL once."""
    by_url = {image.url: image for image in images if image.url and scheme_of(image.url) in SCHEMES}
    return list(by_url.values())

"""Finds the places of images in a prompt, and makes one token for each part of an image there."""

from __future__ import annotations

from pipelines.errors import RequestError
from pipelines.values import Images, PlacedImage


def place_images(ids: list[int], images: Images, field: str) -> tuple[list[int], list[PlacedImage]]:
    """The ids with all tokens of each image, and where these begin.

    A prompt has one mark for each image.  Raises RequestError where it has more, as when a text has one in
    it, or fewer, as when the chat template leaves images out.
    """
    found = ids.count(images.token_id)
    if found != len(images.lengths):
        raise RequestError(
            f"the prompt has {found} places for images, and the request has {len(images.lengths)} images: "
            "text must not contain the model's mark for images, and its chat template must show them all",
            field,
        )
    if not found:
        return ids, []
    whole: list[int] = []
    placed, begin = [], 0
    for length, digest in zip(images.lengths, images.digests, strict=True):
        at = ids.index(images.token_id, begin)
        whole += ids[begin:at]
        placed.append(PlacedImage(len(whole), length, digest))
        whole += [images.token_id] * length
        begin = at + 1
    return whole + ids[begin:], placed

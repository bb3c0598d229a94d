"""Images as the batcher of an encoder sends them: pixels, and names for their stored embeddings."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.nodes.images.known_image import NAME_BYTES, name_of
from pipelines.values.node_values import Images, Tensors


def image_tensors(images: Images, request: Any) -> Tensors:
    """The tensors that `engine.batching` reads; a request with a `cache_salt` shares with those that
    have the same.
    """
    salt = str(getattr(request, "cache_salt", ""))
    tensors = Tensors(names=_array(_salted(images.digests, salt)))
    if images.values.size:
        tensors["features"] = images.values
    if images.grids:
        tensors["grids"] = np.array(images.grids, np.int32)
    if images.stored:
        tensors["stored"] = np.zeros(len(images.lengths), np.uint8)
        tensors["stored"][images.stored] = 1
    if images.named:
        uuids, spans, known = zip(*images.named, strict=True)
        tensors["uuids"] = _array([name_of(uuid, salt) for uuid in uuids])
        tensors["spans"] = np.array(spans, np.int32)
        tensors["known"] = np.array(known, object)
    return tensors


def wanted(uuids: list[str], cache_salt: str) -> Tensors:
    """Asks what is known of the images that have these uuids."""
    return Tensors(wanted=_array([name_of(uuid, cache_salt) for uuid in uuids]))


def _salted(digests: list[bytes], salt: str) -> list[bytes]:
    if not salt:
        return digests
    return [blake2b(each + salt.encode(), digest_size=NAME_BYTES).digest() for each in digests]


def _array(names: list[bytes]) -> NDArray[np.uint8]:
    """uint8[names, NAME_BYTES]"""
    return np.frombuffer(b"".join(names), np.uint8).reshape(len(names), -1)

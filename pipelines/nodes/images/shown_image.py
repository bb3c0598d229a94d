"""The images of a request, read or known already, as later nodes take them: pixels, digests and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate

import numpy as np

from pipelines.nodes.images.known_image import NAME_BYTES, KnownImage
from pipelines.nodes.images.read_image import ReadImage
from pipelines.values.node_values import Floats, Grid, Images


@dataclass(frozen=True)
class ShownImage:
    """An image of a request; `pixels` of each part, [] where the engine host has their embeddings."""

    known: KnownImage
    pixels: list[Floats]
    uuid: str | None

    @property
    def is_stored(self) -> bool:
        return not self.pixels


def shown_image(read: ReadImage, uuid: str | None) -> ShownImage:
    grids = read.grids or [None] * len(read.parts)
    digests = [digest_of(part, grid) for part, grid in zip(read.parts, grids, strict=True)]
    return ShownImage(KnownImage(digests, read.num_tokens, read.text, read.grids), read.parts, uuid)


def joined(images: Sequence[ShownImage], token_id: int, marks: tuple[str, ...]) -> Images:
    """All images of a request, in order."""
    known, pixels = [image.known for image in images], [part for image in images for part in image.pixels]
    grids = [grid for image in known for grid in image.grids]
    join = np.concatenate if grids else np.stack
    ends = list(accumulate(len(image.digests) for image in known))
    placed = list(zip(images, zip([0, *ends], ends, strict=False), strict=True))
    return Images(
        join(pixels) if pixels else np.empty(0, np.float32),
        [length for image in known for length in image.lengths],
        [digest for image in known for digest in image.digests],
        token_id,
        marks,
        [image.text for image in known],
        grids,
        [part for image, span in placed if image.is_stored for part in range(*span)],
        [
            (image.uuid, span, image.known.encoded())
            for image, span in placed
            if image.uuid is not None and not image.is_stored
        ],
    )


def digest_of(part: Floats, grid: Grid | None) -> bytes:
    """The name of what an encoder reads: images of other shapes may have equal bytes."""
    return blake2b(part.tobytes() + repr(grid).encode(), digest_size=NAME_BYTES).digest()

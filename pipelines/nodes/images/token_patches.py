"""The patches of an image that keeps its shape, token by token."""

from __future__ import annotations

from pipelines.values.node_values import Floats


def token_patches(pixels: Floats, patch: int, merge: int) -> Floats:
    """float32[tokens, patches of a token, 3, patch, patch] of pixels float32[3, height, width], in whole
    tokens of merge × merge patches: tokens row by row, and in each of them the patches row by row.
    """
    rows, columns = (length // (patch * merge) for length in pixels.shape[1:])
    split = pixels.reshape(3, rows, merge, patch, columns, merge, patch)
    return split.transpose(1, 4, 2, 5, 0, 3, 6).reshape(rows * columns, merge**2, 3, patch, patch)

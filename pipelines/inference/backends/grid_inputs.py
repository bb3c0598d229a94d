"""What an encoder of images of any shapes reads beside patches: masks, angles, places in a table.

A token stands for merge × merge patches, which follow one another; the tokens of an image come row by row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.onnx_format.patch_inputs import (
    CORNERS,
    ORDER,
    ROTATIONS,
    SEEN,
    SHARES,
    SPREAD,
    TOKEN_ROWS,
    WINDOWS,
)

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
MAX_TOKENS = 4096
"""The most tokens of one image: its patches attend to one another, in a mask of 64 × MAX_TOKENS² bytes."""
GOOD_TOKENS = 256
"""Images of at most that number together run in one call: the same mask hides them from one another."""


@dataclass(frozen=True)
class Patches:
    """`numbers` are those of a patch; a token is `merge` patches wide and high, a window `window` tokens;
    `table` is the side of a table of positions, 1 where there is none.  `ends_rows`: each row of an image has
    one more token at its end, without patches.  The rotary frequency of pair `i` of a column is that of pair
    `i + shift`; `theta` is the base of the wavelengths.  `axis_rows`: rows of a table for the columns, behind
    which lie those for the rows, or 0.  `resized`: the side of a table that is resized to an image, or 0.
    `bound`: the most tokens of an image, where the model sets it.
    """

    numbers: int
    merge: int
    window: int
    table: int = 1
    ends_rows: bool = False
    shift: float = 0.0
    theta: float = 10_000.0
    axis_rows: int = 0
    resized: int = 0
    bound: int = 0

    @property
    def most_tokens(self) -> int:
        """The most tokens of one image."""
        return self.bound or MAX_TOKENS + self.ends_rows * math.isqrt(MAX_TOKENS)

    def parts(self, features: Floats, grids: NDArray[np.int32]) -> tuple[Floats, NDArray[np.int32]]:
        """The patches of all images, and the rows and columns of tokens that have some."""
        if not self.ends_rows:
            return features.reshape(-1, self.numbers), grids
        own = np.maximum(grids - [0, 1], 1).astype(np.int32)
        sizes = zip(grids.tolist(), own.tolist(), strict=True)
        has_some = np.concatenate([_has_patches(rows, columns, read) for (rows, columns), (_, read) in sizes])
        return features[has_some].reshape(-1, self.numbers), own

    @property
    def per_token(self) -> int:
        return self.merge**2


def read_patches(config: Mapping[str, Any]) -> Patches:
    """From config.json, with transformers' values where it leaves them out.  Raises `ModelError`."""
    vision = config.get("vision_config")
    if not isinstance(vision, dict):
        raise ModelError("config.json names no vision_config.")
    side, merge = int(vision.get("patch_size", 14)), int(vision.get("spatial_merge_size", 2))
    channels = int(vision.get("in_channels") or vision.get("in_chans") or 3)
    numbers = channels * int(vision.get("temporal_patch_size", 2)) * side**2
    table = math.isqrt(int(vision.get("num_position_embeddings", 1)))
    window = max(int(vision.get("window_size", 112)) // merge // side, 1)
    ends, shift = bool(vision.get("ends_rows", False)), float(vision.get("column_shift", 0))
    theta = float(vision.get("rope_theta", Patches.theta))
    places = (int(vision.get(name, 0)) for name in ("axis_rows", "resized_table", "max_tokens"))
    return Patches(numbers, merge, window, table, ends, shift, theta, *places)


def padded_rows(batch: TokenBatch, rows: Floats) -> Floats:
    """float32[images, most tokens, size] of all tokens' rows, without those behind them, which an image
    of one column has where tokens end the rows.
    """
    rows = rows[: int(batch.lengths.sum())]
    if len(batch.lengths) == 1:
        return rows[None]
    padded = np.zeros((*batch.ids.shape, rows.shape[1]), np.float32)
    padded[batch.mask.astype(bool)] = rows
    return padded


def grid_inputs(grids: NDArray[np.int32], patches: Patches, num_angles: int) -> dict[str, NDArray[Any]]:
    """The inputs for images whose tokens have these rows and columns, int32[images, 2], one after another.

    `grids` are those of `Patches.parts`.  SEEN and WINDOWS: float32[1, patches, patches], 0 where a patch
    sees another one, else -inf; ROTATIONS: float32[patches, num_angles]; ORDER: int64[tokens]; CORNERS:
    int64[4, patches], and SHARES: float32 of the same shape, or CORNERS int64[2, patches], or SPREAD
    float32[patches, rows of the table]; TOKEN_ROWS: int64[tokens and those that end rows].
    """
    images = np.repeat(np.arange(len(grids)), grids.prod(axis=1))
    windows, count = [], 0
    for rows, columns in grids.tolist():
        row, column = np.indices((rows, columns)).reshape(2, -1) // patches.window
        across = -(-columns // patches.window)
        windows.append(row * across + column + count)
        count += across * -(-rows // patches.window)
    window = np.concatenate(windows)
    order = np.argsort(window, kind="stable")
    angles = [_angles(grid, patches, num_angles) for grid in grids if num_angles]
    return _places(grids, patches) | {
        SEEN: _mask(images, patches.per_token),
        WINDOWS: _mask(window[order], patches.per_token),
        ORDER: order,
        TOKEN_ROWS: _token_rows(grids),
        **({ROTATIONS: np.concatenate(angles)} if angles else {}),
    }


def _places(grids: NDArray[np.int32], patches: Patches) -> dict[str, NDArray[Any]]:
    """What the patches of all images have of a table of positions."""
    sizes = [grid * patches.merge for grid in grids]
    if patches.axis_rows:
        by_axis = [_squares(size, patches.merge).T[::-1] for size in sizes]
        corners = np.concatenate(by_axis, axis=1) + np.array([[0], [patches.axis_rows]])
        return {CORNERS: np.ascontiguousarray(corners)}
    if patches.resized:
        return {SPREAD: np.concatenate([_resized(size, patches) for size in sizes])}
    between = [_between(size, patches) for size in sizes]
    return {
        CORNERS: np.concatenate([corners for corners, _ in between], axis=1),
        SHARES: np.concatenate([shares for _, shares in between], axis=1),
    }


def _resized(size: NDArray[np.int32], patches: Patches) -> Floats:
    """float32[patches, rows of the table]: what each patch of an image has of a square table that is resized
    to its rows and columns of patches, linearly between rows; a smaller one has means, as an image has.
    """
    of_rows, of_columns = (_filter(int(length), patches.resized) for length in size)
    row, column = _squares(size, patches.merge).T
    both = of_rows[row][:, :, None] * of_columns[column][:, None, :]
    shares: Floats = both.reshape(len(row), -1).astype(np.float32)
    return shares


def _filter(length: int, along: int) -> NDArray[np.float64]:
    """float64[length, along]: what each place has of `along` others that are scaled to `length`."""
    scale = along / length
    centre = scale * (np.arange(length) + 0.5)[:, None]
    apart = np.abs(np.arange(along) + 0.5 - centre) / max(scale, 1.0)
    weights: NDArray[np.float64] = np.maximum(1 - apart, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _has_patches(rows: int, columns: int, own: int) -> NDArray[np.bool_]:
    """Which tokens of an image have patches: the first ones of each row."""
    return np.tile(np.arange(columns) < own, rows)


def _token_rows(grids: NDArray[np.int32]) -> Ints:
    """int64: which of the computed rows each token has.  Behind those of patches lie two: that of the token
    at the end of each row of an image but the last, and that of the token at the end of the image.
    """
    count, placed = int(grids.prod(axis=1).sum()), []
    begin = 0
    for rows, columns in grids.tolist():
        own = begin + np.arange(rows * columns).reshape(rows, columns)
        ends = np.full((rows, 1), count)
        ends[-1] = count + 1
        placed.append(np.concatenate([own, ends], axis=1).reshape(-1))
        begin += rows * columns
    return np.concatenate(placed).astype(np.int64)


def _mask(group: Ints, per_token: int) -> Floats:
    """Patches of tokens of one group attend to one another."""
    of = np.repeat(group, per_token)
    return np.where(of[:, None] == of, np.float32(0), np.float32(-np.inf))[None]


def _angles(grid: NDArray[np.int32], patches: Patches, num_angles: int) -> Floats:
    """float32[patches, num_angles]: rotary angles, half of them by a patch's row, half by its column.

    `grid` are the rows and columns of tokens of an image.
    """
    per_axis = num_angles // 2
    pairs = np.arange(per_axis, dtype=np.float32) + np.array([[0], [patches.shift]], np.float32)
    frequencies = (1.0 / patches.theta ** (pairs / np.float32(per_axis))).astype(np.float32)
    by_token = _squares(grid * patches.merge, patches.merge)
    return (by_token[:, :, None].astype(np.float32) * frequencies).reshape(len(by_token), num_angles)


def _squares(size: NDArray[np.int32], merge: int) -> Ints:
    """int64[patches, 2]: the row and the column of each patch of an image, token by token."""
    rows, columns = size.tolist()
    squares = np.indices((rows, columns)).reshape(2, rows // merge, merge, columns // merge, merge)
    return squares.transpose(1, 3, 2, 4, 0).reshape(-1, 2)


def _between(size: NDArray[np.int32], patches: Patches) -> tuple[Ints, Floats]:
    """The places of the table between which each patch of an image is, whose first and last rows and
    columns are those of the table.
    """
    steps = np.maximum(size - 1, 1)
    at = (_squares(size, patches.merge) * ((patches.table - 1) / steps)).astype(np.float32)
    before = at.astype(np.int64)
    after = np.minimum(before + 1, patches.table - 1)
    part = at - before.astype(np.float32)
    corners, shares = [], []
    for row, of_row in ((before, 1 - part), (after, part)):
        for column, of_column in ((before, 1 - part), (after, part)):
            corners.append(row[:, 0] * patches.table + column[:, 1])
            shares.append(of_row[:, 0] * of_column[:, 1])
    return np.stack(corners), np.stack(shares)

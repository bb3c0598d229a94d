"""What the encoder of Qwen2-VL or Qwen2.5-VL reads beside the patches of images: masks and angles.

A token stands for merge × merge patches, which follow one another; the tokens of an image come row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.host.backends.device_errors import ModelError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
THETA = 10_000.0
"""The base of the angles' wavelengths, for all models of these families."""
ROTATIONS, SEEN = "rotary_pos_emb", "attention_mask"
WINDOWS, ORDER = "window_attention_mask", "window_index"
"""Of Qwen2.5-VL: tokens are read in this order, window after window, and most layers see a window alone."""


@dataclass(frozen=True)
class Patches:
    """`numbers` are those of a patch; a token is `merge` patches wide and high, a window `window` tokens."""

    numbers: int
    merge: int
    window: int

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
    return Patches(numbers, merge, int(vision.get("window_size", 112)) // merge // side)


def grid_inputs(grids: NDArray[np.int32], patches: Patches, num_angles: int) -> dict[str, NDArray[Any]]:
    """The inputs for images whose tokens have these rows and columns, int32[images, 2], one after another.

    SEEN and WINDOWS: float32[1, patches, patches], 0 where a patch sees another one, else -inf; ROTATIONS:
    float32[patches, num_angles]; ORDER: int64[tokens].
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
    return {
        SEEN: _mask(images, patches.per_token),
        WINDOWS: _mask(window[order], patches.per_token),
        ORDER: order,
        ROTATIONS: np.concatenate(
            [_angles(grid * patches.merge, patches.merge, num_angles) for grid in grids]
        ),
    }


def _mask(group: Ints, per_token: int) -> Floats:
    """Patches of tokens of one group see one another."""
    of = np.repeat(group, per_token)
    return np.where(of[:, None] == of, np.float32(0), np.float32(-np.inf))[None]


def _angles(size: NDArray[np.int32], merge: int, num_angles: int) -> Floats:
    """float32[patches, num_angles]: half of them turn by a patch's row, half by its column.

    `size` are the rows and columns of patches of an image.
    """
    per_axis = num_angles // 2
    turns = (1.0 / THETA ** (np.arange(per_axis, dtype=np.float32) / np.float32(per_axis))).astype(np.float32)
    rows, columns = size.tolist()
    squares = np.indices((rows, columns)).reshape(2, rows // merge, merge, columns // merge, merge)
    by_token = squares.transpose(1, 3, 2, 4, 0).reshape(-1, 2)
    return (by_token[:, :, None].astype(np.float32) * turns).reshape(len(by_token), num_angles)

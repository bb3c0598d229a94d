"""Colours of 8 bits → the numbers that an encoder reads, as image processors in transformers compute them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.values.node_values import Floats

LEAST_STD = 1e-7


@dataclass(frozen=True)
class ColourScale:
    """`factor` is of all colours, `mean` and `std` are of each."""

    factor: float
    mean: Floats
    std: Floats

    def scaled(self, pixels: NDArray[np.uint8]) -> Floats:
        """float32[3, height, width] of uint8[height, width, 3]."""
        values = (pixels.astype(np.float64) * self.factor).astype(np.float32)
        return np.ascontiguousarray(((values - self.mean) / self.std).transpose(2, 0, 1))


def read_colour_scale(fields: Mapping[str, Any]) -> ColourScale:
    """From preprocessor_config.json.  Raises ValueError for settings under which others would be right."""
    if off := [
        f"do_{step}" for step in ("resize", "rescale", "normalize") if not fields.get(f"do_{step}", True)
    ]:
        raise ValueError(f"{off[0]}: false, which is not computed")
    colours = [np.array(fields[name], np.float32) for name in ("image_mean", "image_std")]
    if any(numbers.shape != (3,) for numbers in colours):
        raise ValueError("image_mean and image_std have no three numbers")
    if not np.isfinite(colours).all() or not (colours[1] > LEAST_STD).all():
        raise ValueError(
            f"image_mean {fields['image_mean']}, image_std {fields['image_std']}: no such colours"
        )
    return ColourScale(float(fields["rescale_factor"]), *colours)

"""Adapters of q_proj, k_proj and v_proj for a model that computes the three as one linear layer, and
likewise.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pipelines.adapters.linear_names import parts_of
from pipelines.adapters.weights import AdapterError, LinearShape, LoraFactors


def fuse(read: Mapping[str, LoraFactors], linears: Mapping[str, LinearShape]) -> dict[str, LoraFactors]:
    """The adapter's sums for the model's own linear layers.  Raises `AdapterError` where sizes do not fit."""
    fused, left = {}, dict(read)
    for linear, shape in linears.items():
        parts = parts_of(linear)
        if linear not in left and any(part in left for part in parts):
            own = [left.pop(part, None) for part in parts]
            fused[linear] = _side_by_side(linear, own, shape)
    return left | fused


def _side_by_side(linear: str, parts: list[LoraFactors | None], shape: LinearShape) -> LoraFactors:
    """One linear layer of which each part has its own rows of the output."""
    sizes = _sizes(linear, [None if part is None else len(part.b) for part in parts], shape.size_out)
    present = [part for part in parts if part is not None]
    if any(part.a.shape[1] != shape.size_in for part in present):
        raise AdapterError(f"{linear} reads {shape.size_in} numbers, its parts in the adapter others")
    b = np.zeros((shape.size_out, sum(len(part.a) for part in present)), np.float32)
    row = column = 0
    for size, part in zip(sizes, parts, strict=True):
        if part is not None:
            b[row : row + size, column : column + len(part.a)] = part.b
            column += len(part.a)
        row += size
    return LoraFactors(np.concatenate([part.a for part in present]), b)


def _sizes(linear: str, sizes: list[int | None], total: int) -> list[int]:
    """The sizes of all parts: the last ones (k and v, gate and up) are equal, the first has the rest."""
    same = next((size for size in sizes[-2:] if size is not None), None)
    first = sizes[0] if len(sizes) == 3 else None
    if same is None:
        same = (total - (first or 0)) // 2
    found = [same, same] if len(sizes) == 2 else [total - 2 * same, same, same]
    if sum(found) != total or any(size not in (None, own) for size, own in zip(sizes, found, strict=True)):
        raise AdapterError(f"{linear} gives {total} numbers; its parts in the adapter are {sizes}")
    return found

"""Into how many tiles an image is split, in such rows as fit its shape."""

from __future__ import annotations

MAX_TILES = 128
"""The most that a model's files may ask for: a narrow image has nearly as many, of any size itself."""


def tile_grids(fewest: int, most: int) -> tuple[tuple[int, int], ...]:
    """All (columns, rows) of at least `fewest` and at most `most` tiles, in the order of their number.

    Raises ValueError where there are none, or too many.
    """
    if most > MAX_TILES:
        raise ValueError(f"an image of up to {most} tiles; it is split into {MAX_TILES} at most")
    if not 1 <= fewest <= most:
        raise ValueError(f"at least {fewest} and at most {most} tiles allow no image")
    sides = range(1, most + 1)
    grids = [(columns, rows) for columns in sides for rows in sides if fewest <= columns * rows <= most]
    return tuple(sorted(grids, key=_num_tiles))


def _num_tiles(grid: tuple[int, int]) -> int:
    return grid[0] * grid[1]


def best_grid(size: tuple[int, int], grids: tuple[tuple[int, int], ...], side: int) -> tuple[int, int]:
    """The grid whose shape is nearest to the image's; of equally near ones the one with more tiles, while the
    image has more than half their pixels.
    """
    width, height = size
    best, least = (1, 1), float("inf")
    for grid in grids:
        difference = abs(width / height - grid[0] / grid[1])
        fills = width * height > 0.5 * side * side * _num_tiles(grid)
        if difference < least or (difference == least and fills):
            best, least = grid, difference
    return best

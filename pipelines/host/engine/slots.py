"""Persistent rows: what a step needs of each running sequence, kept in arrays from step to step.

Rebuilding block tables from lists costs milliseconds at long contexts; here a row changes only where its
sequence grew.  Knows rows and blocks; knows nothing of scheduling.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Slots:
    """One row for each of at most `num_rows` running sequences.

    Of a running sequence: block_table[row, :num_blocks[row]] are its blocks, num_past[row] its
    `num_cached`, last_token[row] its last token id.  Other entries are undefined.
    """

    def __init__(self, num_rows: int, columns: int) -> None:
        self.block_table: NDArray[np.int32] = np.zeros((num_rows, columns), np.int32)
        self.num_blocks: NDArray[np.int32] = np.zeros(num_rows, np.int32)
        self.num_past: NDArray[np.int32] = np.zeros(num_rows, np.int32)
        self.last_token: NDArray[np.int64] = np.zeros(num_rows, np.int64)
        self.free = list(reversed(range(num_rows)))

    @property
    def num_taken(self) -> int:
        return len(self.num_blocks) - len(self.free)

    def take(self, last_token: int) -> int:
        """A row whose blocks are not set yet.  IndexError when none is free."""
        row = self.free.pop()
        self.last_token[row] = last_token
        return row

    def give(self, row: int) -> None:
        self.free.append(row)

    def set_blocks(self, row: int, blocks: list[int]) -> None:
        self.block_table[row, : len(blocks)] = blocks
        self.num_blocks[row] = len(blocks)

    def add_block(self, row: int, block: int) -> None:
        self.block_table[row, self.num_blocks[row]] = block
        self.num_blocks[row] += 1

    def drop_block(self, row: int) -> None:
        self.num_blocks[row] -= 1

    def replace_block(self, row: int, column: int, block: int) -> None:
        self.block_table[row, column] = block

"""What is copied out of the blocks of a cache to the file of its prefixes, and what is brought back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import perf_counter, sleep
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.engine.kv_cache.block_pool import BlockPool
from pipelines.inference.engine.kv_cache.prefix_file.prefix_file import PrefixFile

MIN_TOKENS = 512
"""A prefix is stored when a prompt has found this many tokens of it in the cache: a shorter one is soon
computed.
"""
COPIED_BYTES = 2 << 20
"""Blocks that a step copies for the file; at least one.  Some tenths of a millisecond."""
READ_S = 0.02
"""Time that a step spends with blocks from the file; at least one block."""
CLOSE_S = 3.0
"""How long the end of an engine waits for blocks that are not written yet."""
WAIT_S = 0.005
"""The seconds between two looks whether the disk has taken some."""


class BlockContents(Protocol):
    """What stores the blocks: a decoder's session."""

    @property
    def shape(self) -> ModelShape: ...

    def read_block(self, block: int) -> NDArray[np.uint8]:
        """uint8[shape.block_bytes]: a copy of what a block holds."""

    def write_block(self, block: int, content: NDArray[np.uint8]) -> None:
        """Replace what a block holds."""


class StoredPrefixes:
    """Blocks that prompts have found in the cache go to the file; blocks in the file are found by prompts.

    A block that was read is free and reusable, as one that a finished prompt has left: nothing else of the
    engine knows the difference.  All calls come while no step runs: a step that had begun might still write
    to a block that is free by now.
    """

    def __init__(
        self,
        file: PrefixFile,
        contents: BlockContents,
        pool: BlockPool,
        block_tokens: int,
        min_tokens: int = MIN_TOKENS,
    ) -> None:
        self.num_read = 0  # blocks
        self.is_reading = False  # whether a prompt waits for the next step with its blocks
        self._file, self._contents, self._pool = file, contents, pool
        self._min_blocks = -(-min_tokens // block_tokens)
        self._wanted: deque[bytes] = deque()
        self._read_until_s: float | None = None  # of this step, once it has read a block
        self._buffer = np.empty(contents.shape.block_bytes, np.uint8)

    @property
    def num_written(self) -> int:
        return self._file.num_written

    @property
    def has_work(self) -> bool:
        """Whether a step would copy blocks for the file."""
        return bool(self._wanted) and self._file.has_room

    def begin_step(self) -> None:
        """Copy some blocks for the file."""
        self._read_until_s, self.is_reading = None, False
        if self._wanted:
            self._copy_out(max(1, COPIED_BYTES // len(self._buffer)))

    def reused(self, chain: Sequence[bytes]) -> None:
        """A new prompt has found the blocks with these digests, from its beginning."""
        if len(chain) >= self._min_blocks:
            self._wanted += self._file.use(chain)

    def restore(self, chain: Sequence[bytes], blocks: list[int]) -> bool:
        """Bring back blocks of a chain, of which the first are in `blocks`, and append them.

        False where there are more, for the next step; then `blocks` is as it was.
        """
        if len(blocks) >= len(chain) or not self._file.holds(chain[len(blocks)]):
            return True
        restored = list(blocks)
        for block in restored:
            self._pool.share(block)  # until all are there: a block that is read takes a free one
        try:
            is_whole = self._follow(chain, restored)
        finally:
            for block in reversed(restored):
                self._pool.release(block)
        if is_whole:
            blocks[:] = restored
        self.is_reading = not is_whole
        return is_whole

    def clear(self) -> None:
        """The file is empty."""
        self._wanted.clear()
        self._file.clear()

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Write what is still to be written, as far as time allows."""
        end_s = perf_counter() + timeout_s
        while self._wanted and perf_counter() < end_s:
            if self._file.has_room:
                self._copy_out(1)
            else:
                sleep(WAIT_S)
        self._wanted.clear()
        self._file.close(max(0.0, end_s - perf_counter()))

    def _copy_out(self, most: int) -> None:
        """Copy up to `most` blocks that still have what is wanted; such blocks are full and never change."""
        while self._wanted and most and self._file.has_room:
            name = self._wanted.popleft()
            block = self._pool.find(name)
            if block is None:
                self._file.leave_out(name)
            else:
                self._file.put(name, self._contents.read_block(block))
                most -= 1

    def _follow(self, chain: Sequence[bytes], restored: list[int]) -> bool:
        """Append to `restored` the blocks of a chain, each shared; False where time is up before its end."""
        for place in range(len(restored), len(chain)):
            block = self._pool.find(chain[place])
            if block is not None:
                self._pool.share(block)
            elif not self._file.holds(chain[place]) or not self._pool.num_free:
                return True
            elif not self._has_time():
                self._file.expect(chain[place:])
                return False
            else:
                block = self._read(chain[place])
            if block is None:
                return True
            restored.append(block)
        return True

    def _has_time(self) -> bool:
        now_s = perf_counter()
        if self._read_until_s is None:
            self._read_until_s = now_s + READ_S
            return True
        return now_s < self._read_until_s

    def _read(self, name: bytes) -> int | None:
        """A block, owned, with what the file has of a name; None where that cannot be used."""
        block = self._pool.take()
        try:
            if self._file.read(name, self._buffer):
                self._contents.write_block(block, self._buffer)
                self._pool.register(block, name)
                self.num_read += 1
                return block
        except BaseException:
            self._pool.release(block)
            raise
        self._pool.release(block)
        return None

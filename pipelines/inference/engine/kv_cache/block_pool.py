"""The blocks of one cache: reference counts, and the digests of the content that free blocks still have."""

from __future__ import annotations

from collections import OrderedDict


class BlockPool:
    """`num_blocks` blocks with reference counts; a free block keeps its digest until it is taken again.

    So the prefix cache costs nothing: it is the content of blocks that were not taken again yet (as in
    nano-vllm).  Invariants: 0 <= references[b]; b is free if and only if references[b] == 0; block_of[d] == b
    if and only if digest_of[b] == d.  Free blocks are in the order in which they are taken: those without a
    digest first, then the least recently freed; `num_reusable` of them have one.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.references = [0] * num_blocks
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self.digest_of: dict[int, bytes] = {}
        self.block_of: dict[bytes, int] = {}
        self.num_reusable = 0

    @property
    def num_free(self) -> int:
        return len(self.free)

    def take(self) -> int:
        """A block for new content, referenced once; its digest is removed. KeyError if none is free."""
        block, _ = self.free.popitem(last=False)
        self.references[block] = 1
        digest = self.digest_of.pop(block, None)
        if digest is not None:
            del self.block_of[digest]
            self.num_reusable -= 1
        return block

    def share(self, block: int) -> None:
        """One more owner of a block and of what it holds; the block may be free or owned."""
        if self.references[block] == 0:
            del self.free[block]
            self.num_reusable -= block in self.digest_of
        self.references[block] += 1

    def release(self, block: int) -> None:
        """One owner less; the last one frees the block."""
        self.references[block] -= 1
        if self.references[block] > 0:
            return
        self.free[block] = None
        if block in self.digest_of:
            self.num_reusable += 1
        else:
            self.free.move_to_end(block, last=False)

    def register(self, block: int, digest: bytes) -> None:
        """Make an owned, full block findable by its digest. The first block with a digest is the one
        found.
        """
        if digest not in self.block_of and block not in self.digest_of:
            self.block_of[digest] = block
            self.digest_of[block] = digest

    def remove_digest(self, digest: bytes) -> None:
        """The block of a digest is found no more; free, it is the next to be taken."""
        block = self.block_of.pop(digest, None)
        if block is not None:
            del self.digest_of[block]
            if block in self.free:
                self.num_reusable -= 1
                self.free.move_to_end(block, last=False)

    def remove_digests(self) -> None:
        """What blocks hold now is found no more; owned blocks stay with their owners."""
        self.digest_of.clear()
        self.block_of.clear()
        self.num_reusable = 0

    def find(self, digest: bytes) -> int | None:
        """The block, owned or free, that has the content of this digest; None if no block has."""
        return self.block_of.get(digest)

"""A file of which parts have come: bytes at their places, and a table of how far each piece is.

ETAG.braid-part      the bytes, as long as the whole file from the start
ETAG.braid-pieces    8-byte numbers: length of the file, length of a piece, then bytes of each piece

Bytes are written before the number that counts them, so that a process that is killed loses nothing that it
counted.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import TracebackType

PART, TABLE = ".braid-part", ".braid-pieces"
PIECE_BYTES = 64 << 20
NUMBER = struct.Struct("<q")
HEAD_BYTES = 2 * NUMBER.size


class PartFile:
    """The parts of a file of `num_bytes`, in pieces of `piece_bytes`; opened for one process at a time."""

    def __init__(self, blob: Path, num_bytes: int, piece_bytes: int = PIECE_BYTES) -> None:
        self.path = blob.with_name(f"{blob.name}{PART}")
        self.table = blob.with_name(f"{blob.name}{TABLE}")
        self.num_bytes = num_bytes
        self.piece_bytes = piece_bytes

    def __enter__(self) -> PartFile:
        """Opens what an earlier process left, or begins anew.  Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._data = os.open(self.path, flags, 0o666)
        self._table = os.open(self.table, flags, 0o666)
        self._done = self._read_table()
        if self._done is None:
            self.begin(self.piece_bytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._data)
        os.close(self._table)

    def begin(self, piece_bytes: int) -> None:
        """Begin anew, in pieces of this length.  Raises OSError."""
        self.piece_bytes = max(1, piece_bytes)
        num_pieces = max(1, -(-self.num_bytes // self.piece_bytes))
        self._done = [0] * num_pieces
        os.ftruncate(self._table, 0)
        os.ftruncate(self._data, 0)
        os.ftruncate(self._data, self.num_bytes)
        numbers = (self.num_bytes, self.piece_bytes, *self._done)
        os.pwrite(self._table, b"".join(map(NUMBER.pack, numbers)), 0)

    @property
    def num_pieces(self) -> int:
        return len(self._pieces)

    @property
    def completed(self) -> int:
        """Bytes that are there."""
        return sum(self._pieces)

    def left(self, piece: int) -> tuple[int, int]:
        """The first byte that a piece lacks, and the end of the piece."""
        start = piece * self.piece_bytes
        return start + self._pieces[piece], min(start + self.piece_bytes, self.num_bytes)

    def write(self, piece: int, data: bytes) -> None:
        """Add the next bytes of a piece.  Raises OSError."""
        place, end = self.left(piece)
        assert place + len(data) <= end, "a piece is not longer than it is"
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._data, rest, place)
            place, rest = place + written, rest[written:]
        self._count(piece, self._pieces[piece] + len(data))

    def restart(self, piece: int) -> None:
        """Count no byte of a piece any more."""
        self._count(piece, 0)

    def sync(self) -> None:
        """Wait until the bytes are on the disk.  Raises OSError."""
        os.fsync(self._data)

    def remove(self) -> None:
        """Remove both files: what came was wrong, or is a blob now."""
        self.path.unlink(missing_ok=True)
        self.table.unlink(missing_ok=True)

    @property
    def _pieces(self) -> list[int]:
        assert self._done is not None, "it is open"
        return self._done

    def _count(self, piece: int, num_bytes: int) -> None:
        os.pwrite(self._table, NUMBER.pack(num_bytes), HEAD_BYTES + piece * NUMBER.size)
        self._pieces[piece] = num_bytes

    def _read_table(self) -> list[int] | None:
        """Bytes of each piece; None where the table is not one of this file."""
        size = os.fstat(self._table).st_size
        if (
            size < HEAD_BYTES + NUMBER.size
            or size % NUMBER.size
            or os.fstat(self._data).st_size != self.num_bytes
        ):
            return None
        numbers = [number for (number,) in NUMBER.iter_unpack(os.pread(self._table, size, 0))]
        num_bytes, piece_bytes, *done = numbers
        if (
            num_bytes != self.num_bytes
            or piece_bytes < 1
            or len(done) != max(1, -(-num_bytes // piece_bytes))
        ):
            return None
        lengths = (min(piece_bytes, num_bytes - at * piece_bytes) for at in range(len(done)))
        if not all(0 <= count <= length for count, length in zip(done, lengths, strict=True)):
            return None
        self.piece_bytes = piece_bytes
        return done


def completed_bytes(blob: Path, num_bytes: int) -> int:
    """Bytes of a file that an earlier process left, without changing them."""
    part = PartFile(blob, num_bytes)
    if not (part.path.is_file() and part.table.is_file()):
        return 0
    try:
        with part:
            return part.completed
    except OSError:
        return 0

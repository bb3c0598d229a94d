"""The file of one engine's prefixes: blocks go in and come out by name; a thread of its own writes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.kv_cache.prefix_file.slot_file import SlotFile, SlotsTaken
from pipelines.inference.engine.kv_cache.prefix_file.slot_index import SlotIndex

log = logging.getLogger("braid.host")

RETRY_S = 1.0
"""The seconds between two attempts to open a file that another process has."""
MAX_QUEUED_BYTES = 64 << 20
"""The most bytes of blocks that wait for the disk."""
MAX_NAMES = 2
"""Names for each slot, those that are still to be written among them: prompts may come faster than the disk
takes their blocks.
"""
MAX_EXPECTED = 256
"""Blocks that the system is asked to read ahead."""


class Queued(NamedTuple):
    """A block to write, unless the file was emptied since (`epoch`)."""

    name: bytes
    content: NDArray[np.uint8]
    epoch: int


class PrefixFile:
    """Belongs to the engine's thread.  A fault of the file is logged once and ends its use, nothing else.

    While another process has the file, it is as if it were empty and full; it is opened once that one is
    gone.
    """

    def __init__(self, open_file: Callable[[], SlotFile], label: str, retry_s: float = RETRY_S) -> None:
        """`label` names it in the log: the model."""
        self.num_written = 0  # blocks
        self._open_file, self._label, self._retry_s = open_file, label, retry_s
        self._file: SlotFile | None = None
        self._index = SlotIndex(0)
        self._takes_blocks = False
        self._epoch = 0
        self._num_queued = 0
        self._lock = threading.Lock()  # of the index and the counts
        self._writing = threading.Lock()  # of the file's content; taken before the other one
        self._queue: SimpleQueue[Queued | None] = SimpleQueue()
        self._ended = threading.Event()
        if self._try_to_open(is_first=True):
            self._thread = threading.Thread(target=self._run, name="prefix-file", daemon=True)
            self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether a block may be put now: few enough wait for the disk."""
        file = self._file
        return file is not None and self._num_queued * file.slot_bytes < MAX_QUEUED_BYTES

    def holds(self, name: bytes) -> bool:
        with self._lock:
            return self._index.slot_of(name) is not None

    def use(self, chain: Sequence[bytes]) -> list[bytes]:
        """A chain is used now; returns those of its names whose blocks are to be put."""
        file = self._file
        if file is None:
            return []
        with self._lock:
            if not self._takes_blocks or len(self._index) >= MAX_NAMES * file.num_slots:
                chain = [name for name in chain if self._index.slot_of(name) is not None]
            return self._index.use(chain[: file.num_slots])

    def put(self, name: bytes, content: NDArray[np.uint8]) -> None:
        """Have the block of a wanted name written; `content` is not changed any more."""
        with self._lock:
            self._num_queued += 1
        self._queue.put(Queued(name, content, self._epoch))

    def leave_out(self, name: bytes) -> None:
        """A wanted name has no block any more."""
        with self._lock:
            if self._index.slot_of(name) is None:
                self._index.remove(name)

    def read(self, name: bytes, into: NDArray[np.uint8]) -> bool:
        """Read the block of a name; False where it is not, or not whole, in the file."""
        with self._lock:
            slot = self._index.slot_of(name)
        if slot is None or self._file is None:
            return False
        try:
            if self._file.read(slot, name, into):
                return True
        except OSError as error:
            log.warning("%s: a block cannot be read from the file of prefixes: %s", self._label, error)
        with self._lock:
            if self._index.slot_of(name) == slot:
                self._index.remove(name)
        return False

    def expect(self, chain: Sequence[bytes]) -> None:
        """Blocks that will be read soon."""
        for name in chain[:MAX_EXPECTED]:
            with self._lock:
                slot = self._index.slot_of(name)
            if slot is None or self._file is None:
                return
            self._file.expect(slot)

    def clear(self) -> None:
        """Nothing is found any more, neither now nor after a restart."""
        with self._writing:
            if self._file is None:
                return
            self._epoch += 1
            with self._lock:
                self._index = SlotIndex(self._file.num_slots)
            try:
                self._file.erase()
            except OSError as error:
                self._stop_writing(error)

    def close(self, timeout_s: float) -> None:
        """Write what waits, for at most `timeout_s`, and let others have the file."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._queue.put(None)
        self._thread.join(timeout_s)

    # The thread

    def _try_to_open(self, is_first: bool = False) -> bool:
        """Whether to go on: False where the file can never be used."""
        try:
            file = self._open_file()
            index = SlotIndex(file.num_slots, file.stored())
        except SlotsTaken as taken:
            if is_first:
                log.warning("%s: another process has the file of prefixes %s", self._label, taken)
            return True
        except OSError as error:
            log.warning("%s: the file of prefixes is not used: %s", self._label, error)
            self._ended.set()
            return False
        with self._lock:
            self._file, self._index, self._takes_blocks = file, index, True
        log.info("%s: %d blocks of prefixes are in its file", self._label, len(index))
        return True

    def _run(self) -> None:
        while self._file is None:
            if self._ended.wait(self._retry_s) or not self._try_to_open():
                return
        while (queued := self._queue.get()) is not None:
            with self._writing:
                self._write(queued)
            with self._lock:
                self._num_queued -= 1
        self._end(self._file)

    def _write(self, queued: Queued) -> None:
        file = self._file
        assert file is not None
        if queued.epoch != self._epoch:
            return
        with self._lock:
            place = self._index.take(queued.name)
            if place is None or not self._takes_blocks:
                self._index.remove(queued.name, *(() if place is None else (place.slot,)))
                return
        try:
            file.write(place.slot, queued.name, place.age, queued.content)
        except Exception as error:
            self._stop_writing(error)
        with self._lock:
            if self._takes_blocks:
                self._index.put(queued.name, place.slot)
                self.num_written += 1
            else:
                self._index.remove(queued.name, place.slot)

    def _stop_writing(self, error: Exception) -> None:
        self._takes_blocks = False
        log.warning("%s: no more blocks are written to the file of prefixes: %s", self._label, error)

    def _end(self, file: SlotFile) -> None:
        with self._lock:
            places = self._index.places()
            self._index = SlotIndex(0)
        try:
            for place in places:
                file.set_age(place.slot, place.age)
        except OSError as error:
            self._stop_writing(error)
        self._file = None
        file.close()

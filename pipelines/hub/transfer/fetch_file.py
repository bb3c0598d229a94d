"""Fetches one file into the cache: waits for others who do, resumes, verifies, and gives it its name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from pipelines.hub.base.cache import RepoCache
from pipelines.hub.base.errors import Corrupt
from pipelines.hub.base.events import VERIFYING, WAITING, Meter, Stop
from pipelines.hub.base.remote_files import RemoteFile
from pipelines.hub.clients.hub import Hub
from pipelines.hub.clients.requests import check_status, repeated
from pipelines.hub.clients.transport import Broken, HubReply, Transport
from pipelines.hub.transfer.contents import content_id
from pipelines.hub.transfer.part_file import PIECE_BYTES, PartFile

READ_BYTES = 1 << 20
CONNECTIONS = 8
LOOK_S = 0.2
"""Seconds between two looks at a lock."""
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
Item = TypeVar("Item")


class NoRanges(Exception):
    """The server sends whole files only."""


class FileFetcher:
    """Fetches files of one commit of a repository."""

    piece_bytes = PIECE_BYTES

    def __init__(self, hub: Hub, transport: Transport, cache: RepoCache, commit: str, meter: Meter) -> None:
        self._hub, self._transport, self._cache = hub, transport, cache
        self._commit, self._meter = commit, meter

    def fetch(self, file: RemoteFile, stop: Stop, connections: int) -> None:
        """Have a file in the cache, and in the snapshot.  Raises HubError and OSError."""
        self._cache.make()
        with self._cache.locked(file.etag, self._waiting(file, stop)):
            if not self._cache.holds(file):
                self._fetch_verified(file, stop, connections)
        self._meter.set(file.path, file.etag, file.num_bytes, file.num_bytes)
        self._cache.link(self._commit, file)

    def _waiting(self, file: RemoteFile, stop: Stop) -> Callable[[], None]:
        """What is done until another process is through with the file; it is reported once."""
        is_reported = False

        def wait_a_little() -> None:
            nonlocal is_reported
            if not is_reported:
                self._meter.state(WAITING, file.path, file.etag, file.num_bytes, "another process fetches it")
                is_reported = True
            stop.wait(LOOK_S)

        return wait_a_little

    def _fetch_verified(self, file: RemoteFile, stop: Stop, connections: int) -> None:
        """A content that is wrong is fetched once more: what an earlier process left may be at fault."""
        for is_last in (False, True):
            with PartFile(self._cache.blob(file.etag), file.num_bytes, self.piece_bytes) as part:
                self._fetch_pieces(file, part, stop, connections)
                content = self._verify(file, part)
                if content is None:
                    part.sync()
                    os.replace(part.path, self._cache.blob(file.etag))
                    part.remove()
                    return
                part.remove()
            if is_last:
                raise Corrupt(f"{file.path}: its content is {content}, not {file.etag} as the hub lists it")

    def _verify(self, file: RemoteFile, part: PartFile) -> str | None:
        """The id of a content that is not the file's; None for the right one."""
        if not file.is_hashed:
            return None
        self._meter.state(VERIFYING, file.path, file.etag, file.num_bytes)
        content = content_id(part.path, file.etag)
        return None if content == file.etag else content

    def _fetch_pieces(self, file: RemoteFile, part: PartFile, stop: Stop, connections: int) -> None:
        try:
            pieces = [piece for piece in range(part.num_pieces) if self._lacks(part, piece)]
            in_parallel(
                lambda piece, end: self._fetch_piece(file, part, piece, end), pieces, stop, connections
            )
        except NoRanges:
            part.begin(max(file.num_bytes, 1))
            self._fetch_piece(file, part, 0, stop)

    def _lacks(self, part: PartFile, piece: int) -> bool:
        begin, end = part.left(piece)
        return begin < end

    def _fetch_piece(self, file: RemoteFile, part: PartFile, piece: int, stop: Stop) -> None:
        """Raises NoRanges where the piece is not the whole file and the server cannot begin in its middle."""
        before = part.left(piece)[0]

        def has_progressed() -> bool:
            nonlocal before
            last, before = before, part.left(piece)[0]
            return before > last

        repeated(lambda: self._read_rest(file, part, piece, stop), stop, has_progressed)

    def _read_rest(self, file: RemoteFile, part: PartFile, piece: int, stop: Stop) -> None:
        """One request for what a piece lacks.  Raises Broken where not all of it came."""
        begin, end = part.left(piece)
        is_whole = (begin, end) == (0, file.num_bytes)
        headers = {} if is_whole else {"Range": f"bytes={begin}-{end - 1}"}
        url = self._hub.address(self._commit, file)
        with self._transport.get(url, self._hub.token, headers) as reply:
            what = f"{self._hub.page}: {file.path}"
            check_status(reply, what, self._hub.page, self._hub.token is not None)
            self._check_content(reply, file)
            self._check_range(reply, file, part, piece)
            self._copy(reply, file, part, piece, stop)

    def _check_content(self, reply: HubReply, file: RemoteFile) -> None:
        """Raises Corrupt where the file is not the listed one any more."""
        if reply.headers.get("content-encoding", "identity").lower() != "identity":
            raise Corrupt(f"{file.path}: the server compresses it, though this was not asked for")
        named = self._hub.names_content(reply)
        if named is not None and named != file.etag:
            raise Corrupt(f"{file.path} changed on the hub while it was fetched; fetch it again")

    def _check_range(self, reply: HubReply, file: RemoteFile, part: PartFile, piece: int) -> None:
        """Raises NoRanges, Corrupt and Broken."""
        begin, end = part.left(piece)
        if reply.status == 206:
            sent = _RANGE.fullmatch(reply.headers.get("content-range", ""))
            if sent is None or int(sent[1]) != begin or int(sent[2]) >= end:
                raise Broken("the server sent another range than the one that was asked for")
            if sent[3] not in ("*", str(file.num_bytes)):
                raise Corrupt(f"{file.path} has {sent[3]} bytes, not {file.num_bytes} as the hub lists it")
            return
        length = reply.headers.get("content-length", "")
        if length.isdecimal() and int(length) != file.num_bytes:
            raise Corrupt(f"{file.path} has {length} bytes, not {file.num_bytes} as the hub lists it")
        if part.num_pieces > 1:
            raise NoRanges
        part.restart(piece)

    def _copy(self, reply: HubReply, file: RemoteFile, part: PartFile, piece: int, stop: Stop) -> None:
        begin, end = part.left(piece)
        while begin < end:
            stop.check()
            data = reply.read(min(READ_BYTES, end - begin))
            if not data:
                raise Broken("the connection ended early")
            part.write(piece, data)
            self._meter.set(file.path, file.etag, part.completed, file.num_bytes)
            begin += len(data)


def in_parallel(
    work: Callable[[Item, Stop], None], items: Sequence[Item], stop: Stop, connections: int
) -> None:
    """Do the work for all items in a few threads; the first failure ends the others, and is raised."""
    if len(items) <= 1 or connections <= 1:
        for item in items:
            work(item, stop)
        return
    end = Stop(stop)
    with ThreadPoolExecutor(connections, thread_name_prefix="hub") as threads:
        futures = [threads.submit(work, item, end) for item in items]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failures = [error for future in done if (error := future.exception()) is not None]
            if failures:
                raise failures[0]
        except BaseException:
            end.set()
            threads.shutdown(cancel_futures=True)
            raise

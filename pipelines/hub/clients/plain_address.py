"""One file at any address: its name, its size, and the sum that a person gives for it."""

from __future__ import annotations

import hashlib

from pipelines.hub.base.errors import HubError
from pipelines.hub.base.events import Stop
from pipelines.hub.base.names import HubName
from pipelines.hub.base.remote_files import Listing, RemoteFile, checked
from pipelines.hub.clients.hugging_face import tag_of
from pipelines.hub.clients.requests import check_status, repeated
from pipelines.hub.clients.transport import HubReply, Transport, shown


class PlainAddress:
    """A repository of the only file at an address; `sha256` is what its content must have, if it is known."""

    token: str | None = None
    revision = "main"

    def __init__(self, transport: Transport, name: HubName, sha256: str | None, stop: Stop) -> None:
        self._transport, self._name, self._sha256, self._stop = transport, name, sha256, stop

    @property
    def page(self) -> str:
        return shown(self._name.repo)

    def listing(self) -> Listing:
        num_bytes, tag = repeated(self._look, self._stop)
        etag = self._sha256 or _digest(f"{self._name.repo}\0{tag}\0{num_bytes}")
        file = RemoteFile(self._name.file, num_bytes, etag, is_hashed=self._sha256 is not None)
        return checked(_digest(f"{file.path}\0{etag}")[:40], [file])

    def _look(self) -> tuple[int, str]:
        """Size in bytes and ETag, of a range of one byte: not every server answers HEAD."""
        with self._transport.get(self._name.repo, headers={"Range": "bytes=0-0"}) as reply:
            check_status(reply, self.page, self.page, has_token=False)
            whole = reply.headers.get("content-range", "").rpartition("/")[2]
            text = whole if reply.status == 206 else reply.headers.get("content-length", "")
            if not text.isdecimal():
                raise HubError(f"{self.page}: the server does not say how long the file is")
            return int(text), tag_of(reply.headers.get("etag")) or ""

    def address(self, commit: str, file: RemoteFile) -> str:
        return self._name.repo

    def names_content(self, reply: HubReply) -> str | None:
        if self._sha256 is not None:
            return None
        tag = tag_of(reply.headers.get("etag")) or ""
        num_bytes = (
            reply.headers.get("content-range", "").rpartition("/")[2]
            if reply.status == 206
            else (reply.headers.get("content-length", ""))
        )
        return _digest(f"{self._name.repo}\0{tag}\0{num_bytes}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
